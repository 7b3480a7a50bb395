"""Queries that nothing can be remembered for: greetings, thanks, commands to a shell, the time of day.

Whole phrases of a few words, never parts of longer texts: a query that says anything else as well is
answered. Only recalls are skipped; who searches for `hello` gets what is called so.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Longer texts say something, whatever they begin with.
MAX_WORDS = 9
MAX_CHARS = 120

GREETING = "a greeting or thanks"
ACKNOWLEDGEMENT = "an acknowledgement"
COMMAND = "a command to the agent's own shell"
CLOCK = "a question that a clock or a calendar answers"
SMALL_TALK = "small talk"
EMPTY = "no words"

# `/clear`, `:q`, `\\quit`: a word alone. A path has a second slash, a route is named with more words.
_BARE_COMMAND = re.compile(r"[/:\\][A-Za-z][\w:-]{0,40}!?")
# With arguments only what no route is called: `/review the parser` may want what is known of it, and
# `/login redirect`, `/clear cache endpoint` and `/status returns 500` are about an application's own.
_SHELL_COMMAND = re.compile(
    r"/(?:(?:add-dir|model|theme|vim) \S{1,40}|export \S{1,40}\.\w{1,8}|compact(?: \S{1,40}){1,3})"
)
_BARE_WORDS = frozenset(["exit", "quit", "cls", "logout", "q"])

_GREETINGS = """
hello; hi; hey; hiya; howdy; yo; hello there; hi there; hey there; good morning; good afternoon;
good evening; good night; morning; evening; greetings; hello again; welcome back; hi everyone; hey you;
hello world; thanks; thank you; thx; ty; cheers; many thanks; thanks a lot; thanks so much;
thank you very much; thank you so much; thanks again; much appreciated; bye; goodbye; bye bye; see you;
see you later; see you tomorrow; see ya; talk to you later; ttyl; have a nice day; have a good one;
good bye; take care; please; sorry; my bad; no worries; never mind; nevermind;
hallo; guten tag; guten morgen; guten abend; gute nacht; moin; servus; grüß gott; danke; danke schön;
danke sehr; vielen dank; tschüss; auf wiedersehen; bis später; bis morgen; bitte; grüezi;
bonjour; bonsoir; salut; coucou; merci; merci beaucoup; au revoir; à bientôt; à demain; bonne journée;
bonne nuit; s'il vous plaît; s'il te plaît;
hola; buenos días; buenas tardes; buenas noches; buenas; gracias; muchas gracias; adiós; hasta luego;
hasta mañana; por favor; qué tal;
olá; oi; bom dia; boa tarde; boa noite; obrigado; obrigada; muito obrigado; muito obrigada; tchau;
até logo; até amanhã; tudo bem;
ciao; buongiorno; buonasera; buonanotte; salve; grazie; grazie mille; arrivederci; a domani; per favore;
hoi; goedemorgen; goedemiddag; goedenavond; dank je; dank je wel; dank u; bedankt; tot ziens; doei;
hej; god morgon; god dag; tack; tack så mycket; hej då; tak; mange tak; takk; tusen takk; hei; moi;
kiitos; huomenta; näkemiin;
cześć; dzień dobry; dobry wieczór; dobranoc; dziękuję; dzięki; do widzenia; na razie;
ahoj; dobrý den; dobré ráno; děkuji; díky; na shledanou; sziasztok; szia; köszönöm; viszlát;
привет; здравствуйте; здравствуй; доброе утро; добрый день; добрый вечер; спасибо; большое спасибо;
спасибо большое; пока; до свидания; до завтра; пожалуйста;
привіт; добрий день; дякую; до побачення;
merhaba; selam; günaydın; iyi günler; iyi akşamlar; teşekkürler; teşekkür ederim; sağ ol; hoşça kal;
γεια; γεια σας; γεια σου; καλημέρα; ευχαριστώ;
你好; 您好; 嗨; 早上好; 晚上好; 早安; 晚安; 谢谢; 谢谢你; 多谢; 非常感谢; 再见; 拜拜; 謝謝; 再見; 大家好;
こんにちは; こんばんは; おはよう; おはようございます; ありがとう; ありがとうございます; どうも; さようなら;
またね; おやすみ; おやすみなさい; お疲れ様です;
안녕; 안녕하세요; 감사합니다; 고마워; 고마워요; 고맙습니다; 안녕히 가세요; 잘 자;
مرحبا; السلام عليكم; صباح الخير; مساء الخير; شكرا; شكرا جزيلا; مع السلامة;
שלום; תודה; תודה רבה; בוקר טוב; להתראות;
नमस्ते; नमस्कार; धन्यवाद; शुक्रिया; अलविदा; สวัสดี; ขอบคุณ; xin chào; chào bạn; cảm ơn; tạm biệt;
halo; selamat pagi; selamat malam; terima kasih; sampai jumpa
"""
_ACKNOWLEDGEMENTS = """
ok; okay; k; kk; okey; okie; yes; yep; yeah; yup; ya; y; no; nope; nah; n; sure; sure thing; fine; right;
correct; agreed; exactly; indeed; alright; all right; got it; i see; understood; makes sense;
sounds good; looks good; lgtm; perfect; great; good; nice; cool; awesome; excellent; wonderful; amazing;
well done; good job; great job; nice work; great work; done; go; go on; go ahead; continue; next; proceed;
carry on; keep going; keep it up; do it; do that; please do; please continue; please go ahead; yes please;
no thanks; no thank you; that works; it works; works for me; that's right; that's all; that's it;
hold on; one moment; just a moment; try again; hmm; hm; oh; ah; wow; haha; lol;
are you there; ja; nein; genau; weiter; mach weiter; gut; alles klar; oui; non; d'accord;
parfait; très bien; continue s'il te plaît; continuez; sí; vale; de acuerdo; perfecto; continúa; sigue; claro;
sim; não; certo; continua; beleza; va bene; certo; avanti; continua pure; nee; goed; prima; ga door;
да; нет; хорошо; ладно; продолжай; дальше; понятно; отлично; tak; nie; dobrze; dalej; evet; hayır; tamam;
devam et; 好; 好的; 是; 是的; 对; 不; 不是; 可以; 继续; 行; 没问题; はい; いいえ; 了解; 了解です; わかりました;
続けて; 続けてください; 네; 예; 아니요; 알겠습니다; 계속; 계속해; نعم; لا; حسنا; हाँ; नहीं; ठीक है
"""
_CLOCK = """
what time is it; what time is it now; what's the time; what is the time; what is the current time;
what's the current time; current time; tell me the time; do you know what time it is; time now;
what day is it; what day is it today; what day is today; what is today's date; what's today's date;
what's the date; what is the date; what's the date today; what is the date today; today's date;
what date is it; what date is it today; what year is it; what month is it; what week is it;
what's the weather; what's the weather like; how is the weather; how's the weather today;
what's the weather today; what is the weather like today;
wie spät ist es; wie viel uhr ist es; welcher tag ist heute; welches datum haben wir heute;
wie ist das wetter; wie ist das wetter heute;
quelle heure est-il; quelle heure est il; il est quelle heure; quel jour sommes-nous; quelle est la date;
quelle est la date d'aujourd'hui; quel temps fait-il;
qué hora es; qué día es hoy; qué fecha es hoy; cuál es la fecha de hoy; qué tiempo hace;
que horas são; que dia é hoje; qual é a data de hoje; che ore sono; che ora è; che giorno è oggi;
hoe laat is het; welke dag is het; która godzina; która jest godzina; jaki dziś dzień;
который час; сколько времени; какой сегодня день; какая сегодня дата; какая сегодня погода;
saat kaç; bugün günlerden ne; 现在几点; 现在几点了; 几点了; 今天几号; 今天星期几; 今天天气怎么样;
今何時; 今何時ですか; 今日は何日ですか; 今日は何曜日; 지금 몇 시야; 지금 몇 시예요; 몇 시야; 오늘 며칠이야;
오늘 무슨 요일이야; كم الساعة; क्या समय हुआ है; कितने बजे हैं
"""
_SMALL_TALK = """
how are you; how are you doing; how are you today; how's it going; how is it going; what's up; sup; wassup;
how do you do; nice to meet you; who are you; what are you; what's your name; what is your name;
what can you do; what do you do; can you help me; help me; help; i need help; are you a bot;
are you human; are you an ai; which model are you; what model are you; what model is this; tell me a joke;
sing a song; are you ready; ready; are you ok; good to see you; long time no see; how was your day;
wie geht es dir; wie geht's; wie geht es ihnen; wer bist du; was kannst du; kannst du mir helfen;
comment ça va; ça va; comment vas-tu; qui es-tu; que peux-tu faire; peux-tu m'aider;
cómo estás; cómo está usted; quién eres; qué puedes hacer; puedes ayudarme; como vai; como você está;
quem é você; come stai; come va; chi sei; hoe gaat het; jak się masz; co słychać; как дела; кто ты;
что ты умеешь; nasılsın; 你好吗; 你是谁; 你叫什么名字; 你能做什么; 最近怎么样; お元気ですか; あなたは誰ですか;
元気; 잘 지내; 누구세요; 어떻게 지내세요; كيف حالك; आप कैसे हैं
"""
# Who is spoken to, or how: says nothing by itself, and makes nothing of a greeting.
_ADDRESSED = frozenset(
    [
        "there",
        "all",
        "everyone",
        "team",
        "claude",
        "assistant",
        "bot",
        "ai",
        "agent",
        "buddy",
        "mate",
        "friend",
        "folks",
        "guys",
        "man",
        "sir",
        "again",
        "please",
        "pls",
        "now",
        "today",
        "so",
        "very",
        "much",
        "really",
        "just",
        "then",
        "well",
        "oh",
        "and",
        "you",
    ]
)
_ENDS = re.compile(r"[^\w]+", re.UNICODE)


@cache
def _phrases() -> dict[str, str]:
    """Each phrase in its plain form, with what it is; an earlier list goes first."""
    out: dict[str, str] = {}
    for cause, phrases in (
        (GREETING, _GREETINGS),
        (ACKNOWLEDGEMENT, _ACKNOWLEDGEMENTS),
        (CLOCK, _CLOCK),
        (SMALL_TALK, _SMALL_TALK),
    ):
        for phrase in phrases.split(";"):
            out.setdefault(_plain(phrase), cause)
    return out


def transactional(text: str) -> str:
    """Why nothing needs to be looked up for `text`, "" if something may. Microseconds, no I/O."""
    text = text.strip()
    if len(text) > MAX_CHARS or "\n" in text or "`" in text:
        return ""
    if _BARE_COMMAND.fullmatch(text) or _SHELL_COMMAND.fullmatch(text):
        return COMMAND
    plain = _plain(text)
    if not plain:
        return EMPTY if not any(c.isalnum() for c in text) else ""
    if plain in _BARE_WORDS:
        return COMMAND
    if "_" in text or re.search(r"\w[./(]\w|\w\(\)", text):
        return ""  # `hello.py`, `ping()`: names of things
    words = plain.split()
    if len(words) > MAX_WORDS:
        return ""
    return _phrases().get(plain) or _made_of(words)


def _made_of(words: list[str]) -> str:
    """What phrases one after another say, "ok thanks, bye": the first one's cause."""
    cause, at = "", 0
    while at < len(words):
        for end in range(len(words), at, -1):
            if found := _phrases().get(" ".join(words[at:end])):
                cause, at = cause or found, end
                break
        else:
            if words[at] not in _ADDRESSED:
                return ""
            at += 1
    return cause


def _plain(text: str) -> str:
    """Lower case, no accents or marks at the words' ends, one space between words; "" for emoji alone."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("'", "")
    return " ".join(_ENDS.sub(" ", folded).split())
