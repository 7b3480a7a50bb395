"""Long histories of agents and the people they work for, made up deterministically, with questions.

A history is some months of sessions in one repository. People tell about themselves and others in the
first person, change their minds, date what happened in words or leave that to the message's time; the
agent notes what it learnt about code, how things are done, and what its tools printed. Questions ask in
other words than the statements: `fact`, `update` (the newest of several statements counts), `time`,
`procedural`, `code`, and `unanswerable` (the thing asked for was never said, though the person, or the
subject, may have been). Every history has names of its own; the second half of them draws on relations,
procedures and findings that the first half never uses, so that what was tuned on the first is held out
on the second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from plait.domain.values import Collection

KINDS = (
    "fact",
    "update",
    "time",
    "procedural",
    "code",
    "chat",
    "run",
    "transcript",
    "unanswerable",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored item. `stale`: its code has changed since; `gone`: it is no longer there."""

    text: str
    at: datetime
    collection: Collection = Collection.MEMORIES
    kind: str = "turn"
    source: str = "user"
    importance: float = 0.5
    path: str = ""
    symbol: str = ""
    tags: tuple[str, ...] = ()
    stale: bool = False
    gone: bool = False
    session: str = ""
    speaker: str = ""
    context: str = ""  # what of its run is embedded and indexed with it
    type: str = ""  # episodic and the like; "": by its kind


@dataclass(frozen=True, slots=True)
class Question:
    """`gold`: places in the history's entries; empty: nothing answers. `old`: statements that no longer
    hold, which should rank below the gold."""

    kind: str
    text: str
    gold: frozenset[int]
    old: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class History:
    name: str
    held_out: bool
    entries: Sequence[Entry]
    questions: Sequence[Question]
    family: str = "made"


# Each relation: what is said / what is asked / values. {p} a person as the speaker names them, {v} a value.
_RELATIONS = """
I took {p} to the shelter and we came home with a {v}|{p} finally got a pet, it's a {v}//What kind of animal does {p} have at home?|Which pet did {p} get?//greyhound;tabby cat;cockatiel;tortoise;ferret;beagle
{p} started working as a {v} last month|so {p} got hired, {v} at a small firm//What does {p} do for a living?|What is {p}'s job?//nurse;welder;paralegal;sound engineer;florist;accountant
{p} moved to {v} over the summer|we helped {p} carry boxes, the new flat is in {v}//Where does {p} live?|Which city is {p}'s home in?//Lisbon;Tallinn;Graz;Ottawa;Porto;Leipzig
{p} can't eat {v}, it makes them ill|the doctor told {p} to stay away from {v}//What food does {p} have to avoid?|Is there anything {p} is allergic to?//peanuts;shellfish;gluten;strawberries;soy;eggs
{p} plays the {v} in a little band|you should hear {p} on the {v}, so good//Which instrument does {p} play?|What is {p}'s instrument?//cello;banjo;trumpet;accordion;drums;oboe
{p} drives a {v} these days|{p} bought a used {v} from a neighbour//What car does {p} own?|Which vehicle does {p} get around in?//Skoda estate;blue Civic;camper van;Fiat;red pickup;electric Zoe
{p} is learning {v} with an app|{p} signed up for an evening class in {v}//What language is {p} studying?|Which tongue is {p} trying to pick up?//Finnish;Swahili;Portuguese;Korean;Welsh;Greek
{p} reads nothing but {v} at the moment|on the train {p} is always deep in {v}//What sort of books does {p} like?|What is {p} into reading?//crime novels;space operas;biographies;poetry;manga;history
{p} runs with the {v} club every Tuesday|{p} joined the {v} group, they train twice a week//What sport does {p} do?|How does {p} keep fit?//rowing;climbing;fencing;judo;badminton;cycling
{p} volunteers at the {v} on weekends|on Saturdays {p} helps out at the {v}//Where does {p} do unpaid work?|What charity does {p} give time to?//food bank;animal shelter;library;hospice;repair cafe;community garden
{p} studied {v} before all this|{p} has a degree in {v}, of all things//What did {p} major in?|What subject is {p}'s degree in?//geology;theology;statistics;dance;botany;law
{p} is getting married in {v}|save the date, {p}'s wedding is in {v}//When is {p} tying the knot?|Which month is {p}'s marriage ceremony?//May;June;September;October;April;August
---
{p} broke a {v} skiing|{p} is off work, a {v} fracture from the fall//What injury did {p} have?|Which bone did {p} hurt?//wrist;ankle;collarbone;elbow;rib;thumb
{p} drinks only {v} in the morning|don't offer {p} coffee, it has to be {v}//What beverage does {p} start the day with?|What should I pour {p} at breakfast?//oat milk;green tea;cocoa;tomato juice;mate;cider
{p} collects {v}, the shelves are full|{p} spent the bonus on more {v}//What is {p}'s collection made of?|What does {p} hoard?//stamps;vinyl records;fountain pens;teapots;maps;fossils
{p} is afraid of {v}, really terrified|you can't get {p} near {v}, it's a phobia//What scares {p}?|Which fear does {p} have?//heights;spiders;lifts;deep water;dogs;thunder
{p} named the baby {v}|it's a girl! {p} went with {v}//What is {p}'s child called?|Which name did {p} choose for the newborn?//Ottilie;Maeve;Ingrid;Salome;Wren;Thea
{p} cooks {v} for every party|the {v} that {p} brings is always gone first//What dish is {p} known for?|What does {p} usually bring to eat?//paella;pierogi;lasagne;dumplings;biryani;goulash
{p} will retire to a {v}|{p} dreams of a {v} for later//What home does {p} want in old age?|Where would {p} like to spend retirement?//lighthouse;houseboat;vineyard;log cabin;farm;narrowboat
{p} supports {v}, never misses a match|{p} has a season ticket for {v}//Which team does {p} cheer for?|What club is {p} a fan of?//Rovers;United;the Hawks;Wanderers;the Comets;Athletic
{p} painted the kitchen {v}|the walls at {p}'s place are {v} now//What colour is {p}'s kitchen?|How did {p} redecorate the room where they cook?//mustard;teal;salmon;olive;lilac;terracotta
{p} watches {v} every night|{p} has seen all seasons of {v}//What show is {p} hooked on?|Which series does {p} follow?//Northern Lights;The Harbour;Quiz Lords;Old Money;Salt Road;Deep Space Diner
{p} wrote a thesis on {v}|for three years {p} did research into {v}//What was {p}'s dissertation about?|Which topic did {p} do a doctorate in?//moss;tidal energy;medieval trade;sleep;ant colonies;glass
{p} saves up for a {v}|half of what {p} earns goes towards a {v}//What does {p} want to buy?|What is {p} putting money aside for?//kiln;telescope;sailing boat;piano;loom;greenhouse
"""

_EVENTS = """
I had my {v} appointment{when}|finally went to the {v}{when}//When did I see the {v}?|What day was my visit to the {v}?//dentist;optician;physio;dermatologist;tax adviser;notary
we launched the {v}{when}|the {v} went live{when}, no incidents//When was the {v} released?|On what date did the {v} go out?//billing page;mobile app;search beta;partner API;dark theme;status page
{p} visited me{when} and stayed for two nights|had {p} over{when}, we cooked a lot//When was {p} my guest?|When did {p} come to stay?//-
---
the {v} broke down{when}, what a mess|we lost the {v}{when} for four hours//When did the {v} fail?|On which day was the {v} out?//staging cluster;mail relay;heating;build farm;backup job;VPN
I ran my first {v}{when}|did the {v}{when}, legs still hurt//When did I take part in the {v}?|What date was the {v} I did?//half marathon;triathlon;night hike;relay;obstacle race;ten-mile run
{p} passed the exam{when}!|great news, {p} got through the finals{when}//When did {p} succeed in the test?|When was {p}'s graduation exam?//-
"""

_PROCEDURES = """
From now on cut a release by bumping the version file, running {v} and pushing the tag//How do we publish a new version?|What are the steps to ship?//make ship;tox -e dist;just release
To reset the test database run {v}, never drop it by hand//How is the test db wiped?|What should I use to get a clean database for tests?//scripts/resetdb;make dbfresh;invoke db-clean
Always regenerate the stubs with {v} after you touch a proto file//What do I have to do when I edit the proto definitions?|How are generated files refreshed?//buf generate;make protos;tools/gen
We review large changes in two passes, first {v}, then the naming//In which order are big pull requests looked at?|What comes first in code review?//the data model;the tests;error handling
If the queue is stuck, drain it with {v} and restart the worker//What to do when jobs hang?|How can I unblock the queue?//qctl drain;rake jobs:flush;celery purge
Write commit subjects as {v}, at most 60 characters//What is our convention for commit messages?|How should I phrase a commit's first line?//area: verb;imperative sentences;ticket then verb
---
Rotate the signing keys with {v} every quarter, then tell ops//How are the signing keys renewed?|What is the process for new keys?//keyctl roll;vault rotate;make keys
Before a demo turn the feature flags on with {v}//How do I prepare the demo environment?|What needs to be switched on ahead of a presentation?//flagctl demo;bin/flags on;make showcase
Profile slow requests with {v} and attach the flame graph to the ticket//What tool do I use if an endpoint is slow?|How do we look into latency?//py-spy record;perf top;austin
Never log customer e-mails; mask them by {v}//How do we treat personal data in logs?|What must be done with addresses before logging?//hash_pii();Redactor.apply;mask_mail
Docs are built by {v} and deployed from the main branch only//How does the documentation get online?|What produces our manual?//mkdocs gh-deploy;make site;sphinx-multiversion
Tests that need the network are marked {v} and skipped on laptops//How are online tests told apart?|What marker do tests with internet access get?//@pytest.mark.net;slow_net;requires_online
"""

_FINDINGS = """
{f} in {path} returned stale rows because the cache key lacked the tenant//Why did {f} give outdated results?|What was wrong with caching in {f}?
{f} deadlocked when two workers took the locks in different order; {path} now sorts them//What made {f} hang?|How was the locking problem around {f} solved?
Time stamps were off by an hour in {f}: naive datetimes crossed a DST change ({path})//Why were the times of {f} wrong in spring?|What was the daylight saving bug?
{f} leaked file handles on errors, {path} needs a with block//Where did we run out of descriptors?|What did {f} forget to close?
Retries in {f} doubled every order since {path} was not idempotent//Why were orders created twice?|What happened when {f} was repeated?
---
{f} silently dropped unicode names, {path} encoded to ascii with ignore//Why did accents disappear in {f}?|What lost the non-English names?
Pagination in {f} skipped rows as the sort was not unique; {path} sorts by id too//Why were rows missing between pages of {f}?|How did we make paging in {f} stable?
{f} read the whole upload into memory; {path} streams it in chunks now//Why did large uploads kill {f}?|How does {f} treat big files today?
The float rounding in {f} lost cents, {path} uses Decimal//Why were invoices a cent off?|What number type does {f} need?
{f} ignored the timeout since {path} passed it in milliseconds//Why did {f} never time out?|Which unit mistake was in {path}?
"""

_CHATTER = """
can you have another look at the layout of the settings page, it feels crowded
the standup was short today, everybody is busy with the audit
I'm not sure about the colour of that button, let's leave it
weather is awful again, staying inside with the laptop
could you rename the variable, it reads badly
that worked, the build is green again
I had leftovers for lunch and far too much coffee
let me think about the budget, I'll tell you tomorrow
the customer asked for another export format, probably CSV
we should talk about hiring at some point
my chair is broken, my back hurts
please add a test for the empty list
the meeting with the partners got moved again
I like how the chart looks now, thanks
is there a way to make the page load faster
the neighbours are renovating, it's loud here
I skimmed the report, nothing surprising
somebody left the door of the server room open
the new keyboard arrived, typing is fun again
we still have to answer the auditors
I went for a walk and had an idea about the cache
what a long day, see you tomorrow
the invoice numbers look odd but they are right
our intern did a great job with the migration plan
"""
_CHATTER_ABOUT = """
{p} called while I was in a meeting, I'll ring back
I talked to {p} for an hour yesterday
{p} says hi, by the way
had dinner with {p}, lovely evening
{p} asked me what I actually do all day
need to buy a present for {p}
{p} was late again, as always
I showed {p} the app and they liked it
"""
_AGENT = """
I split the {m} module and moved the helpers next to their callers
Ran the {m} suite: all green after the second try
The {m} refactoring is half done, the call sites are left
I looked into {m} and found no reason for the slowdown yet
Plan: read {m}, write a failing test, fix, clean up
Updated the docstrings of {m} and the changelog
"""
_TOOL = """
$ grep -rn {m} src | wc -l\n{n}
$ pytest -q tests/{m}\n{n} passed in 2.{n}s
$ git log --oneline -- src/{m}.py | head\n{h} touch {m}\n{h2} fix lint
$ ls src/{m}\n__init__.py core.py errors.py types.py
"""
_UNKNOWN = """
What is {p}'s phone number?|What is the name of {p}'s boss?|How tall is {p}?|Which school did {p} go to as a child?
What is the wifi password at the office?|Who won the chess tournament?|How much did the new monitors cost?
Which airline did we book for the conference?|What is our policy on remote work abroad?
How do we set up Kubernetes autoscaling?|What did the lawyer say about the trademark?|Why is the Terraform state locked?
---
What is {p}'s favourite colour?|What is {p}'s blood type?|Which bank is {p} with?|What was {p}'s first concert?
What is the alarm code?|Who is our contact at the printing shop?|How many seats does the plan include?
What did we order for the Christmas party?|Which GPU did we buy for training?|How do we configure SAML single sign-on?
What is the retention period for audit logs?|Why does the iOS simulator crash on start?
"""

_NAMES = [
    "Hanna",
    "Milo",
    "Priya",
    "Tobias",
    "Yara",
    "Felix",
    "Noor",
    "Casper",
    "Lena",
    "Oskar",
    "Dalia",
    "Bruno",
    "Ines",
    "Rafael",
    "Greta",
    "Emil",
    "Zofia",
    "Kofi",
    "Mira",
    "Anton",
    "Leila",
    "Jonas",
    "Wanda",
    "Hugo",
    "Selma",
    "Ivan",
    "Paula",
    "Omar",
    "Clara",
    "Niels",
    "Freya",
    "Viktor",
    "Amara",
    "Louis",
    "Petra",
    "Samir",
]
_ROLES = (
    "my sister {}", "my friend {}", "{}", "{}", "my colleague {}", "my cousin {}", "our neighbour {}",
)  # fmt: skip
_MODULES = [
    "billing",
    "parser",
    "scheduler",
    "mailer",
    "exporter",
    "ledger",
    "gateway",
    "importer",
    "session",
    "catalog",
]
_VERBS = ["load", "merge", "render", "sync", "fetch", "apply", "flush", "plan", "route", "collect"]
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def histories(n: int = 8, sessions: int = 60) -> list[History]:
    """`n` histories, the second half of them held out. The same for every run and machine."""
    return [_history(i, sessions, held_out=i >= n // 2) for i in range(n)]


def _half(table: str, held_out: bool) -> list[list[list[str]]]:
    """Rows of one half: fields, each a list of alternatives."""
    rows = table.strip().split("\n---\n")[int(held_out)].splitlines()
    return [[part.split("|") for part in row.split("//")] for row in rows]


class _Maker:
    """One history while it is made: entries in any order, questions by the entries' keys."""

    def __init__(self, seed: int, sessions: int, held_out: bool) -> None:
        self.rng = random.Random(7_000 + seed)
        self.held_out = held_out
        self.first = datetime(2025, 1, 6, 9, tzinfo=UTC) + timedelta(days=11 * seed)
        self.days = [self.first + timedelta(days=4 * i) for i in range(sessions)]
        people = self.rng.sample(_NAMES, 14)
        self.people = {name: self.rng.choice(_ROLES).format(name) for name in people}
        self.entries: list[Entry] = []
        self.asked: list[tuple[str, str, list[int], list[int]]] = []

    def say(self, text: str, at: datetime, **more: object) -> int:
        """A day is a session, in which nothing said next to a thing is about it."""
        self.entries.append(Entry(text, at, session=f"{at:%Y-%m-%d}", **more))  # type: ignore[arg-type]
        return len(self.entries) - 1

    def moment(self, first: float = 0.0, last: float = 1.0) -> datetime:
        """A time in some session between two shares of the history."""
        low, high = int(first * (len(self.days) - 1)), int(last * (len(self.days) - 1))
        minutes = self.rng.randint(0, 420)
        return self.days[self.rng.randint(low, high)] + timedelta(minutes=minutes)

    def told(self, text: str) -> str:
        """`text` as a person says it: now and then with something else before or after it."""
        text = text[0].upper() + text[1:]
        other = self.rng.choice(_CHATTER.strip().splitlines())
        draw = self.rng.random()
        if draw < 0.25:
            return f"{other[0].upper()}{other[1:]}. {text}."
        return f"{text}. {other[0].upper()}{other[1:]}." if draw < 0.5 else f"{text}."

    def ask(self, kind: str, text: str, gold: Sequence[int], old: Sequence[int] = ()) -> None:
        self.asked.append((kind, text, list(gold), list(old)))


def _history(seed: int, sessions: int, held_out: bool) -> History:
    m = _Maker(seed, sessions, held_out)
    _facts(m)
    _events(m)
    _procedures(m)
    _findings(m)
    _unknown(m)
    _noise(m)
    order = sorted(range(len(m.entries)), key=lambda i: (m.entries[i].at, i))
    place = {old: new for new, old in enumerate(order)}
    questions = [
        Question(kind, text, frozenset(place[g] for g in gold), frozenset(place[o] for o in old))
        for kind, text, gold, old in m.asked
    ]
    return History(f"history-{seed}", held_out, [m.entries[i] for i in order], questions)


def _facts(m: _Maker) -> None:
    """Every relation of some people; a third of those told change later."""
    relations = _half(_RELATIONS, m.held_out)
    for name, called in m.people.items():
        for said, asked, (values,) in m.rng.sample(relations, 5):
            pool = m.rng.sample(values.split(";"), 3)
            changes = m.rng.random() < 0.35
            steps = [0.0, 0.45, 0.9] if changes else [0.0, 0.9]
            told = []
            for value, first, last in zip(pool, steps, steps[1:], strict=False):
                text = m.rng.choice(said).format(p=called, v=value)
                told.append(m.say(m.told(text), m.moment(first + 0.02, last)))
            question = m.rng.choice(asked).format(p=name)
            if changes:
                m.ask("update", _now(m, question), told[-1:], told[:-1])
            else:
                m.ask("fact", question, told)


def _now(m: _Maker, question: str) -> str:
    """Half of those who ask for what is so now say it."""
    return question[:-1] + m.rng.choice([" now?", " currently?", "?", "?"])


def _events(m: _Maker) -> None:
    names = list(m.people)
    for said, asked, (values,) in _half(_EVENTS, m.held_out):
        for value in values.split(";") if values != "-" else m.rng.sample(names, 4):
            at = m.moment()
            called = m.people.get(value, value)
            dated = f" on {at.day} {_MONTHS[at.month - 1]}"
            when = m.rng.choice([dated, " this morning", " yesterday", " last night"])
            text = m.rng.choice(said).format(v=value, p=called, when=when)
            gold = m.say(m.told(text), at)
            if m.rng.random() < 0.25:
                month = _MONTHS[at.month - 1]
                subject = value if values != "-" else f"{value}"
                m.ask("time", f"What happened with {subject} in {month} {at.year}?", [gold])
            else:
                m.ask("time", m.rng.choice(asked).format(v=value, p=value), [gold])


def _procedures(m: _Maker) -> None:
    for (said,), asked, (values,) in _half(_PROCEDURES, m.held_out):
        value, other = m.rng.sample(values.split(";"), 2)
        changed = m.rng.random() < 0.3
        old = []
        if changed:
            text = said.format(v=other) + "."
            old = [m.say(text, m.moment(0.0, 0.4), kind="memory", importance=0.85)]
        text = said.format(v=value) + "."
        gold = m.say(text, m.moment(0.5, 1.0), kind="memory", importance=0.85, tags=("how-to",))
        for question in asked:
            m.ask("procedural", question, [gold], old)


def _findings(m: _Maker) -> None:
    for n, ((said,), asked) in enumerate(_half(_FINDINGS, m.held_out) * 2):
        module = m.rng.choice(_MODULES)
        function = f"{m.rng.choice(_VERBS)}_{module}_{n}"
        path = f"src/{module}/core{n}.py"
        text = said.format(f=function, path=path) + "."
        draw = m.rng.random()
        gold = m.say(
            text,
            m.moment(),
            collection=Collection.REFLECTIONS,
            kind="reflection",
            source="agent",
            path=path,
            symbol=f"src.{module}.core{n}.{function}",
            tags=(module,),
            stale=draw < 0.3,
            gone=draw > 0.9,
        )
        question = m.rng.choice(asked)
        if n >= len(_half(_FINDINGS, m.held_out)) and "{f}" not in question:
            question = asked[0] if "{f}" in asked[0] else asked[0] + f" In {function}?"
        m.ask("code", question.format(f=function, path=path), _same(m, gold, said, question))


def _same(m: _Maker, gold: int, said: str, question: str) -> list[int]:
    """A finding is told of two functions; a question that names none means either."""
    if "{f}" in question or " In " in question:
        return [gold]
    start = said.partition("{f}")[2].partition("{path}")[0] or said[:20]
    return [i for i, e in enumerate(m.entries) if start in e.text and e.kind == "reflection"]


def _unknown(m: _Maker) -> None:
    """What was never said: of people who are known, of nobody, of relations told of others."""
    names = list(m.people)
    for (questions,) in ([row[0]] for row in _half(_UNKNOWN, m.held_out)):
        for question in questions:
            m.ask("unanswerable", question.format(p=m.rng.choice(names)), [])
    strangers = [name for name in _NAMES if name not in m.people]
    relations = _half(_RELATIONS, m.held_out)
    for name in m.rng.sample(strangers, 6):
        _, asked, _ = m.rng.choice(relations)
        m.ask("unanswerable", m.rng.choice(asked).format(p=name), [])


def _noise(m: _Maker) -> None:
    chatter, about = _CHATTER.strip().splitlines(), _CHATTER_ABOUT.strip().splitlines()
    for day in m.days:
        for line in _turns(m, chatter, about):
            at = day + timedelta(minutes=m.rng.randint(0, 420))
            m.say(line[0].upper() + line[1:] + ".", at)
        for _ in range(2):
            module = m.rng.choice(_MODULES)
            line = m.rng.choice(_AGENT.strip().splitlines()).format(m=module)
            at = day + timedelta(minutes=m.rng.randint(0, 420))
            m.say(line + ".", at, source="agent", importance=0.4)
        module = m.rng.choice(_MODULES)
        h = [f"{m.rng.randrange(16**7):07x}" for _ in range(2)]
        output = m.rng.choice(_TOOL.strip().splitlines()).replace("\\n", "\n")
        output = output.format(m=module, n=m.rng.randint(2, 99), h=h[0], h2=h[1])
        m.say(output, day + timedelta(minutes=5), source="system", importance=0.3)


def _turns(m: _Maker, chatter: Sequence[str], about: Sequence[str]) -> Iterator[str]:
    yield from m.rng.sample(chatter, 4)
    for line in m.rng.sample(about, 3):
        yield line.format(p=m.rng.choice(list(m.people.values())))
