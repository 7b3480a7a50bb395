"""The files a deployment starts from: checked against their schemas, since no engine runs in CI."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from plait import settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return tree


def test_the_compose_file_is_valid_by_the_compose_schema(compose: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text())
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(compose))
    assert [(list(e.path), e.message) for e in errors] == []


def test_every_service_is_hardened(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["healthcheck"]["test"], name
        assert not service.get("privileged"), name


def test_only_loopback_ports_are_published_and_stores_have_none(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert "ports" not in services["postgres"]
    assert "ports" not in services["neo4j"]
    assert all(port.startswith("127.0.0.1:") for port in services["plait"]["ports"])
    assert compose["networks"]["stores"]["internal"] is True


def test_no_password_is_written_in_the_compose_file(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for key, value in service["environment"].items():
            if "PASSWORD" in key:
                assert ":?set " in value, key
            else:
                # In an address a password with `@ : /` would be taken for something else.
                assert "PASSWORD" not in value, key
                assert "AUTH" not in key


def test_the_compose_file_names_settings_that_exist(compose: dict[str, Any]) -> None:
    environment = {
        k: v.replace("${", "").replace("}", "").split(":?")[0]
        for k, v in compose["services"]["plait"]["environment"].items()
    }
    assert environment.pop("PLAIT_CONFIG") == "/app/configs/production.yaml"
    loaded = settings.load(ROOT / "configs/production.yaml", environ=environment)
    assert loaded.graph.uri == "bolt://neo4j:7687"
    assert loaded.postgres.dsn.get_secret_value()
    assert loaded.postgres.password.get_secret_value() == "PLAIT_POSTGRES_PASSWORD"


def test_what_is_not_on_loopback_serves_with_tls(compose: dict[str, Any]) -> None:
    loaded = settings.load(ROOT / "configs/production.yaml", environ={})
    assert loaded.server.host == "0.0.0.0"
    assert "--make-certificate" in compose["services"]["plait"]["command"]
    dockerfile = (ROOT / "Dockerfile").read_text().splitlines()
    assert dockerfile[-1] == f"CMD {json.dumps(compose['services']['plait']['command'])}"


def test_health_checks_give_a_busy_machine_time(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        check = service["healthcheck"]
        for key, least_s in (("timeout", 20), ("start_period", 120)):
            assert int(check[key].removesuffix("s")) >= least_s, (name, key)
        assert "doctor" not in check["test"], name


@pytest.mark.parametrize(
    "password", ["p@ss:w/rd'\"", "x/true", "-starts", "with space $HOME `id` $(id)", "ünï"]
)
def test_neo4j_gets_its_password_as_it_is(tmp_path: Path, password: str) -> None:
    """By the script that the image's entry point reads, with what it calls replaced by what tells of it."""
    script = (ROOT / "configs/neo4j-password.sh").read_text()
    for command in ("gosu", "mkdir", "chown"):
        (tmp_path / command).write_text(
            f'#!/bin/sh\nprintf "%s\\0" {command} "$@" >> {tmp_path}/said\n'
        )
        (tmp_path / command).chmod(0o755)
    subprocess.run(
        ["bash", "-eu", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PLAIT_NEO4J_PASSWORD": password},
        check=True,
    )
    said = (tmp_path / "said").read_text().split("\0")
    asked = ["neo4j-admin", "dbms", "set-initial-password", "--", password]
    assert said[-8:-1] == ["gosu", "neo4j:neo4j", *asked]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_configuration_loads(path: Path) -> None:
    settings.load(path, environ={})


def test_the_recall_file_writes_out_every_default() -> None:
    path = ROOT / "configs/recall.yaml"
    defaults = settings.RecallSettings()
    assert settings.load(path, environ={}).recall == defaults
    assert set(yaml.safe_load(path.read_text())["recall"]) == set(defaults.__struct_fields__)
