"""The files a deployment starts from: checked against their schemas, since no engine runs in CI."""

from __future__ import annotations

import json
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
            if "PASSWORD" in key or "AUTH" in key or "DSN" in key:
                assert ":?set " in value, key


def test_the_compose_file_names_settings_that_exist(compose: dict[str, Any]) -> None:
    environment = {
        k: v.replace("${", "").replace("}", "").split(":?")[0]
        for k, v in compose["services"]["plait"]["environment"].items()
    }
    loaded = settings.load(ROOT / "configs/production.yaml", environ=environment)
    assert loaded.graph.uri == "bolt://neo4j:7687"
    assert loaded.postgres.dsn.get_secret_value()


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_configuration_loads(path: Path) -> None:
    settings.load(path, environ={})


def test_the_recall_file_writes_out_every_default() -> None:
    path = ROOT / "configs/recall.yaml"
    defaults = settings.RecallSettings()
    assert settings.load(path, environ={}).recall == defaults
    assert set(yaml.safe_load(path.read_text())["recall"]) == set(defaults.__struct_fields__)
