"""Credentials that are known by their form: by what they begin with and what follows.

Two tables. `FORMS` are ours, for issuers that detect-secrets doesn't know, or knows by an older form.
`PLUGINS` are detectors of detect-secrets: each stands beside the texts without one of which it can't match,
because searching for a plain text is some 30 times faster. A plugin's patterns are used and nothing else of
it: its `verify`, which asks the issuer over the network, is never called.
"""

from __future__ import annotations

# What it is, what it begins with, what follows. Lengths are those the issuers use, or a little less.
FORMS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("anthropic-key", ("sk-ant-",), r"[A-Za-z0-9_-]{20,300}"),
    ("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), r"[A-Za-z0-9]{16,300}"),
    ("openai-key", ("sk-",), r"[A-Za-z0-9_-]{20,300}"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{30,300}"),
    ("github-token", ("github_pat_",), r"[A-Za-z0-9_]{22,300}"),
    (
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "gloas-", "glagent-"),
        r"[A-Za-z0-9_.-]{20,300}",
    ),
    ("plait-key", ("plait_",), r"[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    ("aws-key-id", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("google-key", ("AIza",), r"[0-9A-Za-z_-]{35}"),
    ("google-secret", ("GOCSPX-",), r"[0-9A-Za-z_-]{20,60}"),
    ("google-token", ("ya29.",), r"[0-9A-Za-z_-]{20,2000}"),
    ("slack-token", tuple(f"xox{c}-" for c in "abceoprs"), r"[A-Za-z0-9-]{10,300}"),
    ("slack-token", ("xapp-",), r"\d-[A-Za-z0-9-]{20,300}"),
    ("slack-hook", ("hooks.slack.com/services/", "hooks.slack.com/workflows/"), r"[A-Za-z0-9_/]{20,200}"),
    ("discord-hook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), r"\d{10,30}/[\w-]{40,120}"),
    ("npm-token", ("npm_",), r"[A-Za-z0-9]{36}"),
    ("pypi-token", ("pypi-",), r"[A-Za-z0-9_-]{50,1000}"),
    ("huggingface-token", ("hf_",), r"[A-Za-z0-9]{30,300}"),
    ("sendgrid-key", ("SG.",), r"[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    ("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}"),
    ("vault-token", ("hvs.", "hvb.", "hvr."), r"[A-Za-z0-9_-]{24,300}"),
    ("databricks-token", ("dapi",), r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"[a-fA-F0-9]{32}"),
    ("terraform-token", (".atlasv1.",), r"[A-Za-z0-9_=-]{60,80}"),
    ("doppler-token", ("dp.pt.", "dp.st.", "dp.sa."), r"[A-Za-z0-9._-]{40,60}"),
    ("linear-key", ("lin_api_",), r"[A-Za-z0-9]{32,60}"),
    ("notion-token", ("ntn_",), r"[A-Za-z0-9]{40,60}"),
    ("figma-token", ("figd_",), r"[A-Za-z0-9_-]{36,60}"),
    ("newrelic-key", ("NRAK-",), r"[A-Z0-9]{27}"),
    ("grafana-token", ("glsa_",), r"[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    ("grafana-token", ("glc_eyJ",), r"[A-Za-z0-9+/=]{30,400}"),
    ("postman-key", ("PMAK-",), r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("atlassian-token", ("ATATT3",), r"[A-Za-z0-9_=-]{100,300}"),
    ("age-key", ("AGE-SECRET-KEY-1",), r"[A-Z0-9]{58}"),
    ("perplexity-key", ("pplx-",), r"[A-Za-z0-9]{40,60}"),
    ("groq-key", ("gsk_",), r"[A-Za-z0-9]{48,60}"),
    ("xai-key", ("xai-",), r"[A-Za-z0-9]{70,90}"),
    ("replicate-token", ("r8_",), r"[A-Za-z0-9]{36,40}"),
    ("planetscale-token", ("pscale_tkn_", "pscale_pw_"), r"[A-Za-z0-9_.-]{32,64}"),
    ("supabase-key", ("sbp_", "sb_secret_"), r"[A-Za-z0-9_-]{30,60}"),
    ("sentry-token", ("sntrys_", "sntryu_"), r"[A-Za-z0-9+/=_-]{40,400}"),
    ("docker-token", ("dckr_pat_",), r"[A-Za-z0-9_-]{20,60}"),
    ("azure-sas", ("&sig=", "?sig="), r"[A-Za-z0-9%/+]{40,120}(?:%3[dD]|=)"),
    ("jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,8000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,2000}"),
)  # fmt: skip

# Rule, module and class in detect_secrets.plugins, the texts. Those in lower case are looked for in
# lower-cased text; of `WIDE` the whole text is searched when they are in it, of the others the lines that
# hold them. Not used, with what they cost on five repositories: docs/experiments/secrets.md.
PLUGINS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("aws-secret", "aws", "AWSKeyDetector", ("aws", "A3T")),
    ("azure-key", "azure_storage_key", "AzureStorageKeyDetector", ("AccountKey=",)),
    ("cloudant-key", "cloudant", "CloudantDetector", ("cloudant",)),
    ("discord-token", "discord", "DiscordBotTokenDetector", ("discord",)),
    ("gitlab-token", "gitlab_token", "GitLabTokenDetector", ("GR1348941",)),
    ("ibm-key", "ibm_cloud_iam", "IbmCloudIamDetector", ("ibm", "iam")),
    ("ibm-key", "ibm_cos_hmac", "IbmCosHmacDetector", ("secret_access_key", "secret-access-key", "secretkey")),
    ("mailchimp-key", "mailchimp", "MailchimpDetector", ("-us1", "-us2", "-us3", "-us4", "-us5", "-us6", "-us7", "-us8", "-us9")),
    ("npm-token", "npm", "NpmDetector", ("_authtoken",)),
    ("openai-key", "openai", "OpenAIDetector", ("T3BlbkFJ",)),
    ("softlayer-key", "softlayer", "SoftlayerDetector", ("softlayer",)),
    ("square-secret", "square_oauth", "SquareOAuthDetector", ("sq0csp-",)),
    ("telegram-token", "telegram_token", "TelegramBotTokenDetector", (":AA",)),
    ("twilio-key", "twilio", "TwilioKeyDetector", ("twilio",)),
)  # fmt: skip

WIDE = frozenset({"discord", "twilio"})

# Found by the name beside it: plait.secrets.named.
NAMED = ("private-key", "authorization", "bearer", "url-password", "key", "token", "secret", "password",
         "passwd", "passphrase", "pwd")  # fmt: skip
RULE_NAMES = tuple(sorted({*(f[0] for f in FORMS), *(p[0] for p in PLUGINS), *NAMED}))
