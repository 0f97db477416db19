"""A Tinker server on loopback, written here after what the client sends: one tiny model, trained for real.

Its loss is its own: sums over tokens, in plain torch. It keeps what was asked, for tests to look at.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import torch
import zstandard
from tinker.proto import tinker_public_pb2 as wire

PROTO = "application/x-protobuf"
NUMBERS = {wire.DTYPE_FLOAT32: np.float32, wire.DTYPE_INT64: np.int64}


class Engine:
    """One model and its optimiser."""

    def __init__(self, model: Any, end: int, *, refuses: str = "") -> None:
        self.model, self.end, self.refuses = model, end, refuses
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
        self.samplers: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}
        self.results: dict[str, Callable[[], Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.lock = threading.Lock()

    def later(self, result: Any) -> dict[str, str]:
        number = str(len(self.results) + 1)
        self.results[number] = result
        return {"request_id": number}

    def forward_backward(self, request: wire.ForwardBackwardRequest) -> bytes:
        outputs = []
        for datum in request.data:
            tokens = np.frombuffer(datum.model_input[0].encoded_text.tokens, dtype=np.int32)
            inputs = {
                name: torch.tensor(np.frombuffer(each.dense, dtype=NUMBERS[each.dtype]))
                for name, each in datum.loss_fn_inputs.items()
            }
            logits = self.model(input_ids=torch.tensor(tokens[None].astype(np.int64))).logits[0]
            logprobs = torch.log_softmax(logits.float(), -1).gather(-1, inputs["target_tokens"][:, None])[:, 0]
            self.loss(request, logprobs, inputs).backward()
            outputs.append(logprobs.detach().numpy())
        answer = wire.ForwardBackwardOutput(loss_fn_output_type="logprobs")
        record = answer.loss_fn_outputs.add(num_datums=len(outputs))
        offsets = np.cumsum([0, *(each.nbytes for each in outputs)], dtype=np.int64)
        record.fields["logprobs"].CopyFrom(
            wire.BatchedTensor(
                data=b"".join(each.tobytes() for each in outputs), offsets=offsets.tobytes(), dtype=wire.DTYPE_FLOAT32
            )
        )
        return answer.SerializeToString()

    def loss(self, request: Any, logprobs: Any, inputs: dict[str, Any]) -> Any:
        if request.loss_fn == "cross_entropy":
            return -(logprobs * inputs["weights"]).sum()
        assert request.loss_fn == "ppo"
        ratio = torch.exp(logprobs - inputs["logprobs"])
        low, high = (request.loss_fn_config[f"clip_{side}_threshold"] for side in ("low", "high"))
        worth = inputs["advantages"]
        return -torch.minimum(ratio * worth, ratio.clamp(low, high) * worth).sum()

    def optim_step(self, asked: Any) -> Any:
        params = asked["adam_params"]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), params["grad_clip_norm"])
        for group in self.optimizer.param_groups:
            group.update(
                lr=params["learning_rate"],
                betas=(params["beta1"], params["beta2"]),
                eps=params["eps"],
                weight_decay=params["weight_decay"],
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"metrics": {"unclipped_grad_l2:mean": float(norm)}}

    def sample(self, asked: Any) -> bytes:
        params, tokens = asked["sampling_params"], list(asked["prompt"]["chunks"][0]["tokens"])
        model = self.samplers[asked["sampling_session_id"]]
        luck, drawn, logprobs = torch.Generator().manual_seed(params["seed"]), [], []
        with torch.no_grad():
            while len(drawn) < params["max_tokens"] and (not drawn or drawn[-1] not in params["stop"]):
                logits = model(input_ids=torch.tensor([[*tokens, *drawn]])).logits[0, -1].float()
                chances = torch.softmax(logits / params["temperature"], -1)
                drawn.append(int(torch.multinomial(chances, 1, generator=luck)))
                logprobs.append(float(torch.log_softmax(logits, -1)[drawn[-1]]))
        sequence = wire.SampledSequence(
            stop_reason=wire.STOP_REASON_STOP if drawn[-1] in params["stop"] else wire.STOP_REASON_LENGTH,
            tokens=np.asarray(drawn, dtype=np.int32).tobytes(),
            logprobs=np.asarray(logprobs, dtype=np.float32).tobytes(),
        )
        return wire.SampleResponse(sequences=[sequence]).SerializeToString()

    def snapshot(self) -> str:
        name = f"sampler-{len(self.samplers)}"
        self.samplers[name] = copy.deepcopy(self.model).eval()
        return name

    def save(self, name: str) -> str:
        path = f"tinker://run/weights/{name}"
        self.saved[path] = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))
        return path

    def load(self, path: str) -> None:
        weights, optimizer = copy.deepcopy(self.saved[path])
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)
        self.optimizer.zero_grad()


def answer(engine: Engine, verb: str, asked: Any) -> Any:  # noqa: PLR0911 (one a verb)
    """What is answered at once; work is done when its result is fetched."""
    match verb:
        case "client/config" | "client/dynamic_config" | "telemetry":
            return {"proto_compress_fwdbwd": True} if verb == "client/config" else {"status": "accepted"}
        case "create_session":
            return {"session_id": "session"}
        case "session_heartbeat" | "sessions/session/finish":
            return {}
        case "create_model":
            return engine.later({"model_id": f"session:train:{asked['model_seq_id']}"})
        case "get_info":
            return {"model_id": asked["model_id"], "model_data": {"model_name": "tiny"}}
        case "forward_backward":
            return engine.later(engine.forward_backward(asked))
        case "optim_step":
            return engine.later(engine.optim_step(asked))
        case "asample":
            return engine.later(engine.sample(asked)) | {"sample_sequence_ids": [str(asked["seq_id"])]}
        case "save_weights_for_sampler":
            return engine.later({"sampling_session_id": engine.snapshot()})
        case "save_weights":
            return engine.later({"path": engine.save(asked["path"])})
        case "load_weights":
            engine.load(asked["path"])
            return engine.later({"path": asked["path"], "model_id": f"session:train:{asked['model_seq_id']}"})
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        verb = self.path.split("?")[0].removeprefix("/api/v1/")
        if verb == "retrieve_future":
            return self._send(self.engine.results[json.loads(body)["request_id"]])
        if self.headers.get("content-encoding") == "zstd":
            body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        if self.headers.get("content-type", "").startswith(PROTO):
            asked: Any = wire.ForwardBackwardRequest()
            asked.ParseFromString(body)
        else:
            asked = json.loads(body or b"{}")
        with self.engine.lock:
            self.engine.asked.append((verb, asked))
            if verb == self.engine.refuses:
                return self._send({"detail": "not with me"}, 403)
            found = answer(self.engine, verb, asked)
        return self._send({"detail": f"no {verb} here"} if found is None else found, 404 if found is None else 200)

    def do_GET(self) -> None:
        self._send({"detail": f"no {self.path} here"}, 404)

    def _send(self, result: Any, status: int = 200) -> None:
        raw = isinstance(result, bytes)
        body = result if raw else json.dumps(result).encode()
        self.send_response(status)
        self.send_header("content-type", PROTO if raw else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"engine": engine}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
