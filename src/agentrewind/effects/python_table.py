"""What is known of Python's modules and functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrewind.core.effects import EffectClass


@dataclass(frozen=True, slots=True)
class Module:
    """What `python -m NAME` does."""

    kind: EffectClass
    does: str = ""
    reads: bool = False


_TESTS = Module("workspace", "runs the project's own tools")
MODULES: dict[str, Module] = {
    **dict.fromkeys(("unittest", "pytest", "doctest", "venv", "virtualenv", "compileall", "build", "zipapp"), _TESTS),
    **dict.fromkeys(("cProfile", "profile", "trace", "pdb", "coverage"), Module("workspace", "runs the project's code")),
    **dict.fromkeys(("json.tool", "this", "site", "sysconfig", "platform", "dis", "ast", "tokenize", "timeit", "calendar"), Module("read")),
    "ensurepip": Module("outside", "installs pip"),
    "http.server": Module("external", "serves on the network"),
    "smtpd": Module("external", "serves on the network"),
    "ftplib": Module("external", "talks to the network"),
    "webbrowser": Module("outside", "opens a browser"),
}  # fmt: skip

_TALKS = "talks to the network"
NETWORK: dict[str, str] = {
    **dict.fromkeys(
        """requests httpx httpx2 aiohttp urllib.request urllib3 http.client http.server socket socketserver ssl
        smtplib ftplib imaplib poplib nntplib telnetlib xmlrpc asyncio.open_connection asyncio.start_server
        websockets websocket grpc pycurl treq httplib2 tornado.httpclient selenium playwright pyppeteer scrapy
        mechanize feedparser tweepy praw slack_sdk slack discord telegram twilio sendgrid mailgun stripe plaid
        github gitlab jira atlassian openai anthropic cohere litellm google.generativeai mistralai huggingface_hub
        wandb kaggle paramiko fabric asyncssh pysftp ncclient netmiko zeroconf scapy nmap shodan dns.resolver whois
        yfinance ccxt gspread pygsheets notion_client linear sentry_sdk segment mixpanel posthog datadog
        apprise yagmail redmail exchangelib requests_oauthlib oauthlib.oauth2 gql sgqlc zeep suds""".split(),
        _TALKS,
    ),
    **dict.fromkeys(
        """psycopg2 psycopg asyncpg pymysql MySQLdb mysql mysql.connector aiomysql pymongo motor redis aioredis
        cassandra clickhouse_driver clickhouse_connect elasticsearch opensearchpy influxdb influxdb_client neo4j
        pyodbc cx_Oracle oracledb ibm_db snowflake pymssql ldap ldap3 kafka confluent_kafka aiokafka pika aio_pika
        celery kombu nats stomp paho etcd3 consul hvac couchdb rethinkdb arango trino prestodb pyhive
        pinecone weaviate qdrant_client chromadb pymilvus sqlalchemy.create_engine""".split(),
        "talks to a database or a queue",
    ),
    **dict.fromkeys(
        """boto3 botocore boto aiobotocore google.cloud googleapiclient google.auth azure msrest oci ibm_boto3
        digitalocean kubernetes docker podman pulumi libcloud openstack heroku3 hcloud linode_api4 fsspec s3fs
        gcsfs adlfs snowflake.connector databricks airflow prefect""".split(),
        "works on a cloud or on containers",
    ),
    "webbrowser": "opens a browser",
    "twine": "publishes a package",
}  # fmt: skip
"""Modules whose calls reach past this machine."""

QUIET = frozenset(
    """socket.gethostname socket.getfqdn socket.inet_aton socket.inet_ntoa socket.htons socket.ntohs
    ssl.create_default_context requests.exceptions requests.compat urllib.request.pathname2url
    urllib.request.url2pathname http.client.responses""".split()
)
READING = frozenset(
    """requests.get requests.head requests.options httpx.get httpx.head urllib.request.urlopen
    urllib.request.urlretrieve feedparser.parse yfinance.download yfinance.Ticker dns.resolver.resolve
    socket.gethostbyname socket.getaddrinfo huggingface_hub.hf_hub_download huggingface_hub.snapshot_download""".split()
)

SHELLS: dict[str, Literal["text", "words"]] = {
    **dict.fromkeys(
        """os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output
        subprocess.Popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput pty.spawn
        asyncio.create_subprocess_shell pexpect.spawn pexpect.run sh.bash invoke.run plumbum.local""".split(),
        "text",
    ),
    **dict.fromkeys(
        """asyncio.create_subprocess_exec os.execl os.execlp os.execv os.execvp os.spawnl os.spawnlp os.spawnv
        os.spawnvp os.posix_spawn os.posix_spawnp""".split(),
        "words",
    ),
}

FILES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        """os.remove os.unlink os.rmdir os.mkdir os.makedirs os.removedirs os.chmod os.chown os.truncate os.utime
        os.mkfifo os.mknod os.lchown os.setxattr os.removexattr shutil.rmtree shutil.chown os.chflags""".split(),
        (0,),
    ),
    **dict.fromkeys(("os.rename", "os.replace", "os.renames", "shutil.move"), (0, 1)),
    **dict.fromkeys(
        """shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.copymode shutil.copystat os.link
        os.symlink shutil.unpack_archive""".split(),
        (1,),
    ),
    "shutil.make_archive": (0,),
    "tempfile.NamedTemporaryFile": (),
}
"""Which arguments name files that are changed."""

PATH_METHODS: dict[str, bool] = {
    "write_text": True, "write_bytes": True, "unlink": True, "touch": True, "rmdir": True, "symlink_to": True,
    "hardlink_to": True, "mkdir": True, "rename": False, "replace": False, "chmod": True,
}  # fmt: skip
"""Methods of paths that change files; whether the name alone says that it is a path."""

STATE: dict[str, str] = {
    "os.kill": "sends a signal to a process",
    "os.killpg": "sends a signal to processes",
    "signal.pthread_kill": "sends a signal",
    "os.setuid": "changes its rights",
    "os.sethostname": "changes the machine",
    "os.mount": "mounts a file system",
    "webbrowser.open": "opens a browser",
}

COMPUTES = frozenset(
    """numpy pandas scipy sklearn matplotlib seaborn plotly sympy networkx statsmodels numba polars pyarrow PIL cv2
    skimage imageio torch torchvision torchaudio tensorflow keras jax flax transformers tokenizers datasets
    sentence_transformers xgboost lightgbm catboost nltk spacy gensim yaml toml tomli tomli_w tomlkit ujson orjson
    simplejson msgpack attr attrs pydantic dataclasses_json marshmallow jsonschema jinja2 mako markdown mistune
    docutils rich click typer fire docopt tqdm colorama termcolor tabulate prettytable pytest hypothesis mock
    unittest2 nose parameterized freezegun coverage setuptools pkg_resources packaging wheel pip dateutil pytz
    pendulum arrow regex chardet charset_normalizer lxml bs4 html5lib cssselect xmltodict openpyxl xlrd xlsxwriter
    docx pptx PyPDF2 pypdf reportlab fitz cryptography Crypto nacl bcrypt passlib jwt decorator wrapt six future
    typing_extensions more_itertools toolz cytoolz sortedcontainers cachetools joblib psutil loguru structlog
    flask django fastapi starlette uvicorn werkzeug wtforms sqlparse sqlalchemy alembic peewee cython cffi pybind11
    IPython ipywidgets jupyter nbformat nbconvert pygments black isort mypy ruff pylint flake8 pyflakes ast
    __future__ agentrewind""".split()
)
"""Packages that compute, as far as one knows: importing them is no effect."""
