"""The patterns of the detectors of detect-secrets 1.5.0 that `forms.PLUGINS` names.

Copied, since importing the library takes 0.1 CPU seconds of each process that masks a text, most of them for the
HTTP client of its `verify`; a unit test compares them with the library's. Copyright Yelp, Inc., Apache License 2.0.
"""

from __future__ import annotations

# By class, as the library has them.
PATTERNS: dict[str, tuple[str, ...]] = {
    "AWSKeyDetector": (
        r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
        r"""(?i)aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?[\'\"]([0-9a-zA-Z/+]{40})[\'\"]""",
    ),
    "AzureStorageKeyDetector": (
        r"AccountKey=[a-zA-Z0-9+\/=]{88}",
    ),
    "CloudantDetector": (
        r"""(?i)(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:cloudant|cl|clou)(?:_|-|)(?:api|)(?:key|pwd|pw|password|pass|token)(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)([0-9a-f]{64})(?:"|\'|)""",
        r"""(?i)(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:cloudant|cl|clou)(?:_|-|)(?:api|)(?:key|pwd|pw|password|pass|token)(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)([a-z]{24})(?:"|\'|)""",
        r"(?i)(?:https?\:\/\/)[\w\-]+\:([0-9a-f]{64})\@[\w\-]+\.cloudant\.com",
        r"(?i)(?:https?\:\/\/)[\w\-]+\:([a-z]{24})\@[\w\-]+\.cloudant\.com",
    ),
    "DiscordBotTokenDetector": (
        r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}",
    ),
    "GitLabTokenDetector": (
        r"(glpat|gldt|glft|glsoat|glrt)-[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"GR1348941[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"glcbt-([0-9a-fA-F]{2}_)?[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"glimt-[A-Za-z0-9_\-]{25}(?!\w)",
        r"glptt-[A-Za-z0-9_\-]{40}(?!\w)",
        r"glagent-[A-Za-z0-9_\-]{50,1024}(?!\w)",
        r"gloas-[A-Za-z0-9_\-]{64}(?!\w)",
    ),
    "IbmCloudIamDetector": (
        r"""(?i)(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:ibm(?:_|-|)cloud(?:_|-|)iam|cloud(?:_|-|)iam|ibm(?:_|-|)cloud|ibm(?:_|-|)iam|ibm|iam|cloud|)(?:_|-|)(?:api|)(?:_|-|)(?:key|pwd|password|pass|token)(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)([a-zA-Z0-9_\-]{44}(?![a-zA-Z0-9_\-]))(?:"|\'|)""",
    ),
    "IbmCosHmacDetector": (
        r"""(?i)(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:(?:ibm)?[-_]?cos[-_]?(?:hmac)?|)(?:_|-|)(?:secret[-_]?(?:access)?[-_]?key)(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)([a-f0-9]{48}(?![a-f0-9]))(?:"|\'|)""",
    ),
    "MailchimpDetector": (
        r"[0-9a-z]{32}-us[0-9]{1,2}",
    ),
    "NpmDetector": (
        r"\/\/.+\/:_authToken=\s*((npm_.+)|([A-Fa-f0-9-]{36})).*",
    ),
    "OpenAIDetector": (
        r"sk-[A-Za-z0-9-_]*[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    ),
    "SoftlayerDetector": (
        r"""(?i)(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:softlayer|sl)(?:_|-|)(?:api|)(?:_|-|)(?:key|pwd|password|pass|token)(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)([a-z0-9]{64})(?:"|\'|)""",
        r"(?i)(?:http|https)://api.softlayer.com/soap/(?:v3|v3.1)/([a-z0-9]{64})",
    ),
    "SquareOAuthDetector": (
        r"sq0csp-[0-9A-Za-z\\\-_]{43}",
    ),
    "TelegramBotTokenDetector": (
        r"\d{8,10}:[0-9A-Za-z_-]{35}",
    ),
    "TwilioKeyDetector": (
        r"AC[a-z0-9]{32}",
        r"SK[a-z0-9]{32}",
    ),
}  # fmt: skip
