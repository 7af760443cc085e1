"""The strict policy of a kit.

What a kit ships with lets a project's administrator read files and ship code. The policy written
here does not, and is compared line by line with what it should be at every start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.federation.errors import Refused

__all__ = ["CLASSES", "check_policy", "write_policy"]

CLASSES = {
    "coordinator": "tacit.federation.flare.FlareCoordinator",
    "site": "tacit.federation.flare.FlareSite",
    "gate": "tacit.federation.flare.FlareGate",
}
_DOORS = "tacit.federation.doors.FlareDoors"
_SIGNED = "require_signed_jobs"
_ROLES = ("project_admin", "org_admin", "lead", "member")


def _rights(role: str, *, server: bool) -> dict[str, str]:
    names = ("submit_job", "clone_job", "manage_job", "download_job", "operate", "shell_commands")
    rights = dict.fromkeys((*names, "byoc", "server-predeployed-flwr"), "none")
    rights["view"] = "any" if server else "none"
    if role == "lead":
        rights |= {"submit_job": "any", "manage_job": "n:submitter"}
    return rights


def _component(name: str, path: str, **args: Any) -> dict[str, Any]:
    return {"id": name, "path": f"nvflare.app_common.{path}", "args": args}


def _logs() -> dict[str, Any]:
    file = {
        "class": "logging.handlers.RotatingFileHandler",
        "level": "INFO",
        "formatter": "plain",
        "filename": "log.txt",
        "mode": "a",
        "maxBytes": 5_000_000,
        "backupCount": 2,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
                "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s",
            }
        },
        "handlers": {"file": file},
        "loggers": {"root": {"level": "WARNING", "handlers": ["file"]}},
    }


def _site_policy() -> dict[str, dict[str, Any]]:
    return {
        "resources.json": {
            "format_version": 2,
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": [CLASSES["site"], CLASSES["gate"]],
            "allow_log_streaming": False,
            "client": {"retry_timeout": 30, "compression": "Gzip"},
            "components": [
                {"id": "doors", "path": _DOORS, "args": {}},
                _component(
                    "resource_manager",
                    "resource_managers.gpu_resource_manager.GPUResourceManager",
                    num_of_gpus=0,
                    mem_per_gpu_in_GiB=0,
                    expiration_period=300,
                ),
                _component(
                    "resource_consumer",
                    "resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
                ),
                _component(
                    "process_launcher",
                    "job_launcher.client_process_launcher.ClientProcessJobLauncher",
                ),
            ],
        },
        "authorization.json": {
            "format_version": "1.0",
            "permissions": {role: _rights(role, server=False) for role in _ROLES},
        },
        "privacy.json": {
            "scopes": [
                {
                    "name": "tacit",
                    "properties": {},
                    "task_result_filters": [{"path": CLASSES["gate"], "args": {}}],
                    "task_data_filters": [],
                }
            ],
            "default_scope": "tacit",
        },
        "log_config.json": _logs(),
    }


def _server_policy(kit: Path) -> dict[str, dict[str, Any]]:
    store = "storages.filesystem_storage.FilesystemStorage"
    snapshots = {"root_dir": str(kit / "snapshots"), "uri_root": "/"}
    return {
        "resources.json": {
            "format_version": 2,
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": [CLASSES["coordinator"]],
            "servers": [
                {
                    "admin_storage": "transfer",
                    "max_num_clients": 100,
                    "heart_beat_timeout": 30,
                    "download_job_url": "http://localhost/",
                    "admin_timeout": 10.0,
                }
            ],
            "snapshot_persistor": {
                "path": "nvflare.app_common.state_persistors.storage_state_persistor."
                "StorageStatePersistor",
                "args": {
                    "uri_root": "/",
                    "storage": {"path": f"nvflare.app_common.{store}", "args": snapshots},
                },
            },
            "components": [
                _component(
                    "job_scheduler", "job_schedulers.job_scheduler.DefaultJobScheduler", max_jobs=4
                ),
                {
                    "id": "job_manager",
                    "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                    "args": {"uri_root": str(kit / "jobs"), "job_store_id": "job_store"},
                },
                _component("job_store", store),
                _component(
                    "process_launcher",
                    "job_launcher.server_process_launcher.ServerProcessJobLauncher",
                ),
            ],
        },
        "authorization.json": {
            "format_version": "1.0",
            "permissions": {role: _rights(role, server=True) for role in _ROLES},
        },
        "log_config.json": _logs(),
    }


def _policy(kit: Path, *, server: bool) -> dict[str, str]:
    files = _server_policy(kit) if server else _site_policy()
    return {name: json.dumps(body, indent=1) + "\n" for name, body in files.items()}


def write_policy(kit: Path, *, server: bool = False) -> None:
    """Write the strict policy of a kit."""
    for name, text in _policy(kit, server=server).items():
        write_whole(kit / "local" / name, text)


def check_policy(kit: Path, *, server: bool = False) -> None:
    """Raise `Refused`, with file and line, if a kit's policy is not the strict one."""
    for name, text in _policy(kit, server=server).items():
        path = kit / "local" / name
        found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        expected = text.splitlines()
        for number, line in enumerate(expected):
            if number >= len(found) or found[number] != line:
                shown = found[number].strip() if number < len(found) else "(nothing)"
                raise Refused(
                    f"{path}, line {number + 1}: is {shown}, and the strict policy has "
                    f"{line.strip()}; restore it with: tacit federate policy {kit}"
                )
        if len(found) > len(expected):
            raise Refused(f"{path}, line {len(expected) + 1}: does not belong to the strict policy")
    _check_startup(kit / "startup" / ("fed_server.json" if server else "fed_client.json"))
    if (kit / "local" / "custom").exists():
        raise Refused(f"{kit / 'local' / 'custom'}: holds code; the strict policy has none")


def _check_startup(path: Path) -> None:
    """Raise `Refused` if a kit takes jobs that nobody signed, as an edited one would be."""
    text = path.read_text(encoding="utf-8") if path.exists() else "{}"
    if json.loads(text).get(_SIGNED, True) is not True:
        line = text[: text.index(_SIGNED)].count("\n") + 1
        raise Refused(f"{path}, line {line}: lets unsigned jobs in; remove {_SIGNED}")
