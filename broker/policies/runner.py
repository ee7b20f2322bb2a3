"""Runs policies in a process of their own, in which nothing of the broker is imported or on the path.

For authors of policies
-----------------------
``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` name a class, as
``package.module:Class`` or as an entry point of the group ``barnabas.policies``. It is made without
arguments and may have these methods; only ``validate`` must be there::

    from barnabas_policies import PolicyViolation      # this process has it; nothing to install

    class OursOnly:
        def configure(self, configs):                  # the broker's own configs, as {name: text}; once
            self.prefix = configs.get("ours.prefix", "ours-")

        def validate(self, request):                   # for each topic, also with validate_only
            if not request.topic.startswith(self.prefix):
                raise PolicyViolation(f"{request.topic} does not begin with {self.prefix}")

        def close(self):                               # when the broker stops
            pass

The request of a create policy has ``topic``, ``num_partitions``, ``replication_factor`` (defaults filled
in; both None where replicas were chosen by hand), ``replicas_assignments`` ({partition: [broker]}, else
None) and ``configs`` (those of the request); that of an alter policy ``resource_type`` (``TOPIC``,
``BROKER``, ``GROUP``, ``CLIENT_METRICS``), ``resource_name`` and ``configs`` (what is set; None for what is
deleted). As in Kafka the alter policy is asked about the configs of new topics too.

Whoever asked gets POLICY_VIOLATION with the text; any exception whose class is called PolicyViolation will
do. Other exceptions are faults of the policy: UNKNOWN_SERVER_ERROR for whoever asked, and the traceback in
the broker's log. So is a policy that takes too long. What a policy prints goes to the log.

The module must be importable by the broker's Python: installed beside it, or in a folder of PYTHONPATH.

The wire
--------
That of ``broker.workers.wire``, over standard input and output; bodies are JSON. The first order is
``{"policies": {kind: name}, "configs": {}}``, answered by the result ``null`` or by a failure with its text;
the others are lists of questions, answered by lists of verdicts: ``null``, ``["violation", text or null]`` or
``["fault", text]``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

GROUP: Final = "barnabas.policies"


class PolicyViolation(Exception):
    """The request is against the policy; the text is for whoever asked."""


def run() -> int:
    """Serve until the broker closes its end; the exit code."""
    wire = _wire()
    orders, replies = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _offer_module()
    policies: dict[str, Any] = {}
    try:
        order = json.loads(wire.read(orders)[1])
        try:
            for kind, name in order["policies"].items():
                policies[kind] = _make(name, order["configs"])
        except Exception as error:
            traceback.print_exc()
            wire.write(replies, wire.FAILURE, f"{type(error).__name__}: {error}".encode())
            return 1
        wire.write(replies, wire.RESULT, b"null")
        while True:
            questions = json.loads(wire.read(orders)[1])
            verdicts = [_verdict(policies, question) for question in questions]
            wire.write(replies, wire.RESULT, json.dumps(verdicts).encode())
    except wire.PipeClosed:
        pass  # the broker has no more questions, or has gone
    for policy in policies.values():
        if hasattr(policy, "close"):
            policy.close()
    return 0


def _wire() -> Any:
    """The module with the wire's functions, from its file: no folder of the broker's is on the path here."""
    path = Path(__file__).resolve().parents[1] / "workers" / "wire.py"
    spec = importlib.util.spec_from_file_location("_barnabas_wire", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _offer_module() -> None:
    module = ModuleType("barnabas_policies", "For policies: the exception that they raise.")
    module.PolicyViolation = PolicyViolation  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module


def _make(name: str, configs: dict[str, str]) -> Any:
    policy = _load(name)()
    if not callable(getattr(policy, "validate", None)):
        raise TypeError(f"{name} has no method validate")
    if hasattr(policy, "configure"):
        policy.configure(dict(configs))
    return policy


def _load(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not colon:
        for found in entry_points(group=GROUP, name=name):
            return found.load()
        raise LookupError(
            f"{name!r} is no entry point of the group {GROUP}; a class is named as package.module:Class"
        )
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _verdict(policies: dict[str, Any], question: dict[str, Any]) -> Any:
    policy = policies.get(question.pop("type"))
    if policy is None:
        return None
    question["configs"] = dict(question["configs"])
    if question.get("replicas_assignments") is not None:
        question["replicas_assignments"] = dict(question["replicas_assignments"])
    try:
        policy.validate(SimpleNamespace(**question))
    except Exception as error:
        if any(each.__name__ == "PolicyViolation" for each in type(error).__mro__):
            return ["violation", str(error) or None]
        traceback.print_exc()
        return ["fault", f"{type(error).__name__}: {error}"]
    return None


if __name__ == "__main__":
    sys.exit(run())
