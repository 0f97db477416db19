# Each target sets up what it needs in its own virtual environment; nothing global is touched.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The heavy lanes keep their environments outside of the checkout, named by a hash of what they install.
LANES  ?= $(HOME)/.cache/agentrewind/lanes
PIP    := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/light: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e .
	@touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e . $$($(PYTHON) .ci/dev_requirements.py)
	@touch $@ $(VENV)/light

demo: $(VENV)/light ## Install and play the demo: a run that goes wrong, goes back, and succeeds
	$(BIN)/agentrewind demo

lint: $(VENV)/dev ## Types, style, and the direction of imports
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Everything but the heavy harnesses, in under ten minutes on two cores
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not lane and not slow"

docs: $(VENV)/dev ## The documentation site in build/site; fails on a warning or a dead link
	$(BIN)/python $(PIP) $$($(PYTHON) .ci/dev_requirements.py docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

test-browser: $(VENV)/dev ## The page in a real browser (needs Chromium; downloads 50 MB once)
	$(BIN)/python $(PIP) $$($(PYTHON) .ci/dev_requirements.py browser)
	$(BIN)/python -m pytest -s tests/browser

test-slow: $(VENV)/dev ## The long rings: crash storms, long property runs
	$(BIN)/python -m pytest -m "slow and not lane"

fidelity: $(VENV)/dev ## 10,000 random histories of a workspace, saved, damaged, restored and compared
	AGENTREWIND_HISTORIES=$${AGENTREWIND_HISTORIES:-10000} $(BIN)/python -m pytest -m slow --timeout 36000 tests/property/test_snapshots_machine.py

storm: $(VENV)/dev ## 500 processes killed at random while they save, restore, collect and rewind; nothing may be lost
	AGENTREWIND_KILLS=$${AGENTREWIND_KILLS:-500} $(BIN)/python -m pytest -s -m slow --timeout 36000 tests/crash/test_storm.py

soak: $(VENV)/dev ## 2,000 calls and 200 rewinds through the proxy: memory, journal, and checkpoints restored at the end
	AGENTREWIND_SOAK_CALLS=$${AGENTREWIND_SOAK_CALLS:-2000} $(BIN)/python -m pytest -s -m slow --timeout 36000 tests/e2e/test_soak.py

proxy-kills: $(VENV)/dev ## The proxy of a run with rewinds killed at random instants, and the run resumed to its end
	AGENTREWIND_PROXY_KILLS=$${AGENTREWIND_PROXY_KILLS:-10} $(BIN)/python -m pytest -s -m slow --timeout 36000 tests/e2e/test_proxy_kills.py

tasks: $(VENV)/dev ## Every gate and screen of every benchmark task
	$(BIN)/agentrewind tasks check --all

worlds: $(VENV)/dev ## 10,000 random checkpoints, steps and restores of each native world beside a model (ALFWORLD_DATA: real games)
	AGENTREWIND_SEQUENCES=$${AGENTREWIND_SEQUENCES:-10000} $(BIN)/python -m pytest -s -n 0 tests/property/test_worlds_machine.py

intercode: $(VENV)/dev ## 10,198 commands of real agents in the sandbox, and every snapshot of them restored and compared (../shared)
	$(BIN)/python benchmarks/intercode.py

agentrx: $(VENV)/dev ## How often rules without a model name the step that people hold responsible (../shared)
	$(BIN)/python benchmarks/agentrx.py

alfworld: $(VENV)/dev ## The native reader of ALFWorld's games beside the official engine (ALFWORLD_DATA, ALFWORLD_ENGINE)
	$(BIN)/python benchmarks/native_alfworld.py

# Some keep their clients open to the end of the process, and say so when they are collected.
LATE := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

test-mini: ## The lane with the real mini-SWE-agent (downloads over 500 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh mini -m "lane and not slow" $(LATE) tests/lanes/mini tests/unit/formats tests/e2e/test_real_project.py
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh mini $(LATE) "tests/docs/test_examples.py::test_the_examples_of_a_page_work[mini-swe-agent.md]"

test-mini-tasks: ## Every task of the benchmark by the real mini-SWE-agent: reference, violation, and back from each trap
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh mini -m lane $(LATE) tests/lanes/mini/test_shipped_tasks.py

test-bench: ## The statistics of the benchmark with SciPy (downloads 80 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh bench -m lane tests/lanes/bench

test-ray: ## The benchmark on a local Ray (downloads 70 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh ray -m lane $(LATE) tests/lanes/ray

# The tests need no GPU; a newer one from PyPI for Linux brings 5 GB for it.
TORCH := torch==2.13.0

test-train: ## The trainer, on the CPU (downloads 300 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" PINS="$(TORCH)" sh .ci/lane.sh train --timeout 600 $(LATE) tests/lanes/train tests/unit/learn/test_training.py "tests/docs/test_examples.py::test_the_examples_of_a_page_work[training.md]"

# A virtual environment with torch, kept like those of the lanes, and one thread a process.
train-demo: ## Clone and train a tiny model on MineSweeper, and print how well it plays before and after
	PYTHON="$(PYTHON)" LANES="$(LANES)" PINS="$(TORCH)" sh .ci/lane.sh train --version
	PYTHONPATH=src $$(ls -td $(LANES)/train-*/bin | head -1)/python -m agentrewind train recipes/minesweeper.toml --out build/train-demo

test-trl: ## TRL as the engine: its loss beside ours, the large recipes on the meta device (downloads 600 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" PINS="$(TORCH)" sh .ci/lane.sh trl $(LATE) tests/lanes/trl "tests/docs/test_examples.py::test_the_examples_of_a_page_work[training-engines.md]"

test-tinker: ## Tinker's client against a server on loopback (downloads 350 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" PINS="$(TORCH)" sh .ci/lane.sh tinker,train $(LATE) tests/lanes/tinker

test-mcp: ## `agentrewind mcp` and the real client
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh mcp tests/lanes/mcp "tests/docs/test_examples.py::test_the_examples_of_a_page_work[mcp.md]"

test-smolagents: ## The lane with the real smolagents (downloads 80 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh smolagents $(LATE) tests/lanes/smolagents "tests/docs/test_examples.py::test_the_examples_of_a_page_work[smolagents.md]"

test-qwen: ## The lane with the real Qwen-Agent (downloads 120 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh qwen $(LATE) tests/lanes/qwen "tests/docs/test_examples.py::test_the_examples_of_a_page_work[qwen-agent.md]"

test-langchain: ## The lane with the real LangChain and LangGraph (downloads 80 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh langchain tests/lanes/langchain "tests/docs/test_examples.py::test_the_examples_of_a_page_work[langchain.md]"

test-openai-agents: ## The lane with the real OpenAI Agents SDK (downloads 60 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh openai-agents tests/lanes/openai_agents "tests/docs/test_examples.py::test_the_examples_of_a_page_work[openai-agents.md]"

test-pydantic-ai: ## The lane with the real PydanticAI (downloads 50 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh pydantic-ai tests/lanes/pydantic_ai "tests/docs/test_examples.py::test_the_examples_of_a_page_work[pydantic-ai.md]"

test-table3: ## The paper's comparison of harnesses, with the simulated model (downloads 600 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh mini,smolagents,qwen $(LATE) tests/lanes/table3

test-cli-agents: ## Claude Code, Codex, Qwen Code and opencode under `exec` (npm, downloads 400 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/cli_agents.sh

test-oldest: ## The lanes again, with the oldest versions that are supported (.ci/oldest.txt)
	OLDEST=1 $(MAKE) test-mini test-mcp test-smolagents test-qwen test-langchain test-openai-agents test-pydantic-ai

test-scienceworld: ## The lane with the real ScienceWorld (needs Java; downloads 10 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh scienceworld tests/lanes/scienceworld

test-worlds: ## The lane of what is around the worlds: Gymnasium, plots, Ray (downloads 150 MB once)
	PYTHON="$(PYTHON)" LANES="$(LANES)" sh .ci/lane.sh gym,bench,ray $(LATE) tests/lanes/worlds tests/unit/learn/test_evaluation.py

scienceworld: $(VENV)/dev ## Gold sequences of ScienceWorld, played and played again (AGENTREWIND_SCIENCEWORLD: a Python that has it)
	$${AGENTREWIND_SCIENCEWORLD:-$(BIN)/python} benchmarks/scienceworld_gold.py

test-atif: $(VENV)/dev ## Exported trajectories and tasks against the formats' own models (downloads 3 MB once)
	PYTHON="$(BIN)/python" LANES="$(LANES)" sh .ci/harbor.sh
	AGENTREWIND_HARBOR=$(LANES)/harbor-0.26.0 $(BIN)/python -m pytest tests/unit/formats/test_atif.py tests/e2e/test_suites.py -k "atif or harbor"

wheel-test: $(VENV)/dev ## Build the wheel and run it with the sources out of reach
	PYTHON="$(PYTHON)" sh .ci/wheel.sh

bench: $(VENV)/dev ## The measurements of benchmarks/ that need nothing more, printed
	for file in $$(ls benchmarks/*.py | grep -v -e alfworld -e scienceworld -e intercode -e agentrx -e training); do $(BIN)/python $$file || exit 1; done

clean: ## Remove what these targets made in the checkout
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
