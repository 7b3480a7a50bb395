"""Which files are secrets as a whole: by their names, and by how they begin."""

from __future__ import annotations

import re

# In the syntax of `.gitignore`, for lower-cased paths; a later line wins. Folders end with "/".
NAMES: tuple[str, ...] = (
    # Environment files; what is made to be copied and filled in is no secret.
    ".env", ".env.*", "*.env", ".env-*", ".envrc", ".flaskenv.local",
    "!*.example", "!*.sample", "!*.template", "!*.tmpl", "!*.dist", "!*.defaults", "!*.schema",
    "!example.env", "!sample.env", "!template.env", "!.env.d.ts", "!.env.*.example", "!.env.ci-example",
    # Keys and stores of keys.
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "*.ppk", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.agekey", "*.p8", "*.pkcs12", "*.asc.key", "master.key",
    "config/credentials/*.key", ".ssh/", ".gnupg/", "!.ssh/config", "secring.*",
    # Logins of tools.
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd",
    ".git-credentials", ".dockercfg", ".docker/config.json", ".dockerconfigjson", ".s3cfg", ".boto",
    ".rclone.conf", "rclone.conf", ".vault-token", ".vault_pass", ".vault_pass.txt", ".vault-pass",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json",
    "composer/auth.json", ".yarnrc.private", ".esmtprc", ".msmtprc", ".fetchmailrc", ".smbcredentials",
    ".terraformrc", "terraform.rc", ".terraform.d/credentials.tfrc.json", ".databrickscfg", ".snowsql/config",
    ".config/gh/hosts.yml", ".config/hub", ".jupyter/jupyter_server_config.json", "key3.db", "key4.db",
    "logins.json", ".remote-sync.json", "sftp-config.json", "sftp.json", ".ftpconfig", ".ftpquota",
    # Clouds and clusters.
    ".aws/", ".azure/", ".config/gcloud/", ".kube/config", "kubeconfig", "*.kubeconfig", "kubeconfig.y*ml",
    "credentials.csv", "accesskeys.csv", "*_accesskeys.csv", "rootkey.csv", "accesstokens.json",
    "azureprofile.json", "application_default_credentials.json", "client_secret*.json", "client_secrets.json",
    "gha-creds-*.json", "*service-account*.json", "*service_account*.json", "*serviceaccount*key*.json",
    "credentials.json", "local.settings.json", "*.publishsettings", "publish-profile*.xml",
    "*.tfstate", "*.tfstate.*", "terraform.tfvars", "terraform.tfvars.json", "*.auto.tfvars",
    "*.auto.tfvars.json", "pulumi.*.secrets.yaml",
    # By their own word.
    "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "secrets.ini", "secrets.env", "secret.yml",
    "secret.yaml", "secret.json", "secret.toml", ".secrets", ".secrets.*",
    "credentials.yml", "credentials.yaml", "credentials.toml",
    "credentials.ini", "*.secret", "*.secrets", "!.secrets.baseline",
    # What was typed, keys and passwords among it.
    ".bash_history", ".zsh_history", ".sh_history", ".psql_history", ".mysql_history", ".python_history",
    ".node_repl_history", ".rediscli_history", ".sqlite_history", "fish_history", "*.history.txt",
)  # fmt: skip

# By content: how a key's file begins, or what forms of one kind hold together.
_KEY_FILE = re.compile(
    rb"\s*(?:Bag Attributes[\s\S]{0,2000}?|#[^\n]{0,300}\n\s*){0,10}"
    rb"(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1|openssh-key-v1)"
)
_WHOLE_KEY = re.compile(
    rb"^-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s*$", re.MULTILINE
)
_TOGETHER: tuple[tuple[bytes, ...], ...] = (
    (b'"private_key"', b'"service_account"'),  # a Google service account
    (b'"terraform_version"', b'"lineage"'),  # a Terraform state under another name
    (b"current-context:", b"client-key-data:"),  # a kubeconfig
    (b"current-context:", b"users:", b"token:"),
    (b'"auths"', b'"auth"'),  # a Docker login
    (b'"kty"', b'"d"', b'"n"'),  # a JSON web key with its private half
)
_KUBE_SECRET = re.compile(rb"^kind:[ \t]*[\"']?Secret[\"']?[ \t]*\r?$", re.MULTILINE)
_KUBE_DATA = re.compile(rb"^(?:data|stringData):[ \t]*\r?\n[ \t]+\S+:[ \t]*\S", re.MULTILINE)
_NETRC = re.compile(rb"\s*machine[ \t]+\S+\s+login[ \t]+\S+\s+password[ \t]+\S+")


def is_secret(head: bytes, *, code: bool) -> bool:
    """Whether a file that begins with `head` is a secret as a whole. Of source code only what is nothing
    but a key: in the rest, keys are masked where they stand."""
    if b"PRIVATE KEY" in head or b"-Key-File-" in head or b"SECRET-KEY-1" in head:
        if _KEY_FILE.match(head):
            return True
        if not code and _WHOLE_KEY.search(head) and _mostly_key(head):
            return True
    if code:
        return False
    if any(all(part in head for part in parts) for parts in _TOGETHER):
        return True
    if b"Secret" in head and _KUBE_SECRET.search(head) and _KUBE_DATA.search(head):
        return True
    return b"machine" in head[:2000] and _NETRC.match(head) is not None


def _mostly_key(head: bytes) -> bool:
    """A certificate with its key, an OpenVPN profile: more lines of base64 than others."""
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    keyish = sum(
        re.fullmatch(rb"[A-Za-z0-9+/=]{40,76}|-----.{1,60}-----", line) is not None
        for line in lines
    )
    return keyish * 2 > len(lines)
