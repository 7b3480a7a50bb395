"""Files that hold credentials, put together at run time from what issuers' credentials look like.

None is live, and none stands in this file as a whole, so that no scanner takes it for a leak. `HELD_OUT` names
those that were written after the rules and by which no rule was chosen.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
B64 = ALNUM + "+/"
URL = ALNUM + "-_"

Make = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Sample:
    """A file at `path` with the text `before`, a secret and `after`. `whole`: it is left out."""

    name: str
    path: str
    text: str
    parts: tuple[str, ...]  # pieces of the secret, none of which may be found anywhere
    whole: bool = False


def token(rng: random.Random, alphabet: str, n: int) -> str:
    """Random, with a digit and a letter in it whatever the draw."""
    text = "".join(rng.choices(alphabet, k=n - 4))
    letter = "b" if "b" in alphabet else "B"
    return text[: n // 2] + "7" + text[n // 2 :] + letter + "3" + letter


def pieces(secret: str) -> tuple[str, ...]:
    """What must be gone: windows of 14 characters over its lines."""
    out = []
    for line in secret.splitlines():
        if len(line) < 14:
            out.append(line)
        else:
            out += [line[i : i + 14] for i in range(0, len(line) - 13, 14)] + [line[-14:]]
    return tuple(out)


def pem(rng: random.Random, kind: str, lines: int = 6) -> tuple[str, tuple[str, ...]]:
    body = ["".join(rng.choices(B64, k=64)) for _ in range(lines)]
    mark = f"{kind} PRIVATE" + " KEY" if kind else "PRIVATE" + " KEY"
    text = "\n".join([f"-----BEGIN {mark}-----", *body, f"-----END {mark}-----", ""])
    return text, tuple(piece for line in body for piece in pieces(line))


def _files(rng: random.Random) -> list[Sample]:
    out: list[Sample] = []

    def whole(name: str, path: str, form: str, secret: str) -> None:
        out.append(Sample(name, path, form.replace("@@", secret), pieces(secret), True))

    def pem_file(name: str, path: str, kind: str, before: str = "", after: str = "") -> None:
        text, parts = pem(rng, kind)
        out.append(Sample(name, path, before + text + after, parts, True))

    whole("env", ".env", "DEBUG=1\nSTRIPE=@@\n", "zz" + token(rng, ALNUM, 24))
    whole("env-local", "app/.env.production", "SECRET=@@\n", token(rng, ALNUM, 30))
    whole("netrc", ".netrc", "machine api.host login ana password @@\n", token(rng, ALNUM, 16))
    whole("npmrc", ".npmrc", "//registry.npmjs.org/:_authToken=@@\n", token(rng, HEX, 36))
    whole("pypirc", ".pypirc", "[pypi]\npassword = @@\n", token(rng, URL, 60))
    whole("aws", ".aws/credentials", "[default]\naws_secret_access_key = @@\n", token(rng, B64, 40))
    whole("gcp", "deploy/my-service-account.json", '{"private_key_id": "@@"}', token(rng, HEX, 40))
    whole("tfstate", "infra/terraform.tfstate", '{"password": "@@"}', token(rng, ALNUM, 20))
    whole("docker", ".docker/config.json", '{"auths": {"h": {"auth": "@@"}}}', token(rng, B64, 40))
    whole("pgpass", ".pgpass", "h:5432:db:u:@@\n", token(rng, ALNUM, 18))
    whole("git-credentials", ".git-credentials", "https://u:@@@h\n", token(rng, ALNUM, 24))
    whole("kubeconfig", "ops/kubeconfig", "users:\n- user:\n    token: @@\n", token(rng, URL, 60))
    whole("history", ".bash_history", "export X=@@\n", token(rng, ALNUM, 24))
    whole("rails", "config/master.key", "@@", token(rng, HEX, 32))
    whole("cargo", ".cargo/credentials.toml", '[registry]\ntoken = "@@"\n', token(rng, ALNUM, 35))
    whole("htpasswd", "www/.htpasswd", "ana:$apr1$@@\n", token(rng, ALNUM, 30))
    whole("secrets-yaml", "config/secrets.yml", "prod:\n  base: @@\n", token(rng, HEX, 64))
    pem_file("id_rsa", "keys/id_rsa", "OPENSSH")
    pem_file("key-by-content", "certs/server.key", "RSA")
    pem_file("key-with-cert", "certs/both.pem", "", "# made by hand\n")
    pem_file("key-as-text", "docs/notes-key.txt", "EC")
    text, parts = pem(rng, "")
    account = {"type": "service_account", "project_id": "p", "private_key": text}
    out.append(Sample("account-renamed", "conf/prod-login.json", json.dumps(account), parts, True))
    secret = base64.b64encode(token(rng, ALNUM, 30).encode()).decode()
    kube = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: {secret}\n"
    out.append(Sample("kube-secret", "k8s/db.yaml", kube, pieces(secret), True))
    state = json.dumps(
        {
            "version": 4,
            "terraform_version": "1.5",
            "lineage": "x",
            "outputs": {"p": {"value": token(rng, ALNUM, 22)}},
        }
    )
    out.append(
        Sample(
            "state-renamed",
            "infra/backup-state.json",
            state,
            pieces(json.loads(state)["outputs"]["p"]["value"]),
            True,
        )
    )
    return out  # fmt: skip


def _tokens(rng: random.Random) -> list[Sample]:
    """In files that stay: code, configuration, prose."""
    out: list[Sample] = []

    def inside(name: str, path: str, form: str, secret: str, fixed: str = "") -> None:
        out.append(Sample(name, path, form.replace("@@", fixed + secret), pieces(secret)))

    py = '"""A client."""\n\nTIMEOUT = 3\nVALUE = "@@"\n\n\ndef connect():\n    return VALUE, TIMEOUT\n'
    inside("github", "src/gh.py", py, token(rng, ALNUM, 36), "ghp" + "_")
    inside("github-fine", "src/gh2.py", py, token(rng, ALNUM, 60), "github" + "_pat_")
    inside("gitlab", "src/gl.py", py, token(rng, URL, 20), "glpat" + "-")
    inside("aws-id", "src/aws.py", py, token(rng, UPPER, 16), "AKIA")
    inside(
        "aws-secret",
        "src/aws2.py",
        py.replace("VALUE =", "aws_secret_key ="),
        token(rng, ALNUM, 40),
    )
    inside(
        "slack",
        "src/slack.js",
        "const s = '@@';\n",
        "123456789012-" + token(rng, ALNUM, 24),
        "xoxb" + "-",
    )
    inside(
        "slack-hook",
        "src/hook.js",
        "post('https://hooks.slack.com/services/@@')\n",
        "T012AB3CD/B012AB3CD/" + token(rng, ALNUM, 24),
    )
    inside(
        "stripe", "src/pay.ts", "export const key = '@@'\n", token(rng, ALNUM, 24), "sk_" + "live_"
    )
    inside(
        "openai",
        "src/ai.py",
        py,
        token(rng, ALNUM, 20) + "T3Blbk" + "FJ" + token(rng, ALNUM, 20),
        "sk-",
    )
    inside("openai-project", "src/ai2.py", py, token(rng, URL, 60), "sk-" + "proj-")
    inside("anthropic", "src/ai3.py", py, token(rng, URL, 90), "sk-" + "ant-api03-")
    inside(
        "google",
        "web/map.html",
        "<script src='https://maps/api?key=@@'></script>\n",
        token(rng, ALNUM, 35),
        "AI" + "za",
    )
    inside(
        "jwt",
        "src/jwt.go",
        'package x\n\nvar T = "@@"\n',
        "eyJhbGciOiJIUzI1NiJ9.eyJ" + token(rng, ALNUM, 40) + "." + token(rng, URL, 43),
    )
    inside(
        "npm-token", "ci/build.yml", "env:\n  NODE_AUTH: @@\n", token(rng, ALNUM, 36), "npm" + "_"
    )
    inside(
        "pypi-token",
        "ci/release.sh",
        "twine upload -p @@\n",
        "AgEIcHlwaS5vcmc" + token(rng, URL, 90),
        "pypi" + "-",
    )
    inside(
        "sendgrid",
        "src/mail.rb",
        "KEY = '@@'\n",
        token(rng, ALNUM, 22) + "." + token(rng, ALNUM, 43),
        "SG.",
    )
    inside(
        "azure",
        "src/blob.cs",
        'var c = "DefaultEndpointsProtocol=https;AccountKey=@@";\n',
        token(rng, B64, 86) + "==",
    )
    inside("telegram", "src/bot.py", 'TELEGRAM = "@@"\n', "123456789:AA" + token(rng, ALNUM, 33))
    inside("twilio", "src/sms.py", "# twilio\nSID = '@@'\n", token(rng, LOWER, 32), "SK")
    inside("mailchimp", "src/list.php", "<?php $k = '@@-us12';\n", token(rng, HEX, 32))
    inside("huggingface", "src/hf.py", py, token(rng, ALNUM, 34), "hf" + "_")
    inside(
        "url",
        "src/db.py",
        py.replace("@@", "postgres://app:@@@db.internal/x"),
        token(rng, ALNUM, 18),
    )
    inside(
        "named", "src/conf.java", 'class C { String dbPassword = "@@"; }\n', token(rng, ALNUM, 14)
    )
    inside("named-yaml", "deploy/values.yaml", "db:\n  password: @@\n", token(rng, ALNUM, 16))
    inside(
        "named-symbols", "src/sym.py", 'password = "@@"\n', "p@$$" + token(rng, ALNUM, 10) + "!%"
    )
    inside(
        "header",
        "docs/api.md",
        "curl -H 'Authorization: Bearer @@' https://x\n",
        token(rng, URL, 40),
    )
    inside("basic", "docs/api2.md", "Authorization: Basic @@\n", token(rng, B64, 32))
    inside("hex-key", "settings/base.py", "SECRET_KEY = '@@'\n", token(rng, HEX, 50))
    inside("comment", "src/c.rs", '// old api_key: "@@"\nfn main() {}\n', token(rng, ALNUM, 28))
    inside(
        "vault",
        "src/vault.tf",
        'provider "vault" { token = "@@" }\n',
        token(rng, ALNUM, 90),
        "hvs" + ".",
    )
    inside("digitalocean", "src/do.py", py, token(rng, HEX, 64), "dop_" + "v1_")
    inside(
        "notebook",
        "nb/a.ipynb",
        '{"cells": [{"source": ["token = \\"@@\\"\\n"]}]}',
        token(rng, ALNUM, 36),
        "ghp" + "_",
    )
    inside("env-in-docker", "Dockerfile", "FROM x\nENV API_TOKEN=@@\n", token(rng, ALNUM, 32))
    inside(
        "ci-token", "ci/deploy.yml", "script:\n  - DEPLOY_TOKEN=@@ ./run\n", token(rng, ALNUM, 24)
    )
    inside(
        "discord",
        "src/disc.py",
        '# discord\nBOT = "@@"\n',
        "M" + token(rng, ALNUM, 24) + "." + token(rng, ALNUM, 6) + "." + token(rng, ALNUM, 27),
    )
    text, parts = pem(rng, "RSA")
    out.append(
        Sample(
            "key-in-code",
            "src/signer.py",
            f'KEY = """{text}"""\n\n\ndef sign():\n    return KEY\n',
            parts,
        )
    )
    joined = " +\n".join(f'  "{line}\\n"' for line in pem(rng, "EC")[0].splitlines())
    lines = [line for line in joined.split('"') if len(line) > 60]
    out.append(
        Sample(
            "key-in-js",
            "src/signer.js",
            f"const k =\n{joined};\n",
            tuple(p for line in lines for p in pieces(line.removesuffix("\\n"))),
        )
    )
    inside(
        "properties",
        "app/application.properties",
        "spring.datasource.password=@@\n",
        token(rng, ALNUM, 16),
    )
    inside(
        "xml",
        "app/settings.xml",
        "<server><password>@@</password></server>\n",
        token(rng, ALNUM, 16),
    )
    inside("json-config", "app/config.json", '{"clientSecret": "@@"}\n', token(rng, URL, 32))
    inside("square", "src/sq.py", py, token(rng, ALNUM, 43), "sq0" + "csp-")
    inside(
        "hcl",
        "infra/main.tf",
        'resource "x" "y" {\n  master_password = "@@"\n}\n',
        token(rng, ALNUM, 18),
    )
    inside("argument", "scripts/run.sh", "mysql -u root --password=@@ db\n", token(rng, ALNUM, 16))
    inside(
        "setenv",
        "src/env.py",
        'import os\nos.environ.setdefault("GITHUB_TOKEN", "@@")\n',
        token(rng, ALNUM, 40),
    )
    inside(
        "compare",
        "src/cmp.py",
        'def ok(password):\n    return password == "@@"\n',
        token(rng, ALNUM, 16),
    )
    inside("dict", "src/dict.py", "D = {'auth_token': '@@', 'x': 1}\n", token(rng, ALNUM, 32))
    return out  # fmt: skip


def samples(seed: int = 11) -> list[Sample]:
    """The corpus: the same for equal seeds."""
    rng = random.Random(seed)
    return [*_files(rng), *_tokens(rng)]


# Every second one, of both kinds: rules were chosen without a look at them.
HELD_OUT = frozenset(sample.name for sample in samples()[1::2])
