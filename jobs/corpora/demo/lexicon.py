"""The words of the demo language: tables that a person can read, and the few records they become.

A sense is a line. An English word with several lines (`know`, `put`, `heavy`) has several translations, and the kind of
noun beside it decides which: the kinds of two lines of one word never overlap. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

MASCULINE, FEMININE, NEUTER, PLURAL = range(4)  # how German sees a noun: three genders, and one plural for all
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
CASES = {"nom": NOMINATIVE, "acc": ACCUSATIVE, "dat": DATIVE, "gen": GENITIVE}

# Kinds of noun: their nouns as singular, plural ('-': none), then article, singular, plural, genitive ('': a feminine).
NOUNS = {
    "person he": """
        man men der Mann Männer Mannes / boy boys der Junge Jungen Jungen / teacher teachers der Lehrer Lehrer Lehrers
        doctor doctors der Arzt Ärzte Arztes / farmer farmers der Bauer Bauern Bauern / son sons der Sohn Söhne Sohnes
        neighbour neighbours der Nachbar Nachbarn Nachbarn / student students der Student Studenten Studenten
        baker bakers der Bäcker Bäcker Bäckers / brother brothers der Bruder Brüder Bruders
        father fathers der Vater Väter Vaters / friend friends der Freund Freunde Freundes
        king kings der König Könige Königs / judge judges der Richter Richter Richters
        uncle uncles der Onkel Onkel Onkels / customer customers der Kunde Kunden Kunden""",
    "person she": """
        woman women die Frau Frauen / sister sisters die Schwester Schwestern / mother mothers die Mutter Mütter
        daughter daughters die Tochter Töchter / queen queens die Königin Königinnen / aunt aunts die Tante Tanten
        nurse nurses die Krankenschwester Krankenschwestern / waitress waitresses die Kellnerin Kellnerinnen
        girl girls das Mädchen Mädchen Mädchens""",
    "person": "child children das Kind Kinder Kindes",
    "animal": """
        dog dogs der Hund Hunde Hundes / cat cats die Katze Katzen / horse horses das Pferd Pferde Pferdes
        bird birds der Vogel Vögel Vogels / cow cows die Kuh Kühe / mouse mice die Maus Mäuse
        pig pigs das Schwein Schweine Schweins / bear bears der Bär Bären Bären / lion lions der Löwe Löwen Löwen
        goat goats die Ziege Ziegen""",
    "thing upright": """
        bottle bottles die Flasche Flaschen / cup cups die Tasse Tassen / vase vases die Vase Vasen
        lamp lamps die Lampe Lampen / bucket buckets der Eimer Eimer Eimers / glass glasses das Glas Gläser Glases""",
    "thing flat": """
        key keys der Schlüssel Schlüssel Schlüssels / knife knives das Messer Messer Messers
        ring rings der Ring Ringe Ringes
        spoon spoons der Löffel Löffel Löffels / blanket blankets die Decke Decken""",
    "thing flat text": """
        book books das Buch Bücher Buches / letter letters der Brief Briefe Briefes
        newspaper newspapers die Zeitung Zeitungen / map maps die Karte Karten""",
    "picture flat": "picture pictures das Bild Bilder Bildes",
    "thing flat clothes": """
        coat coats der Mantel Mäntel Mantels / shirt shirts das Hemd Hemden Hemdes / jacket jackets die Jacke Jacken
        hat hats der Hut Hüte Hutes / dress dresses das Kleid Kleider Kleides
        scarf scarves der Schal Schals Schals""",
    "thing bag": """
        bag bags die Tasche Taschen / box boxes die Kiste Kisten / suitcase suitcases der Koffer Koffer Koffers""",
    "wall": """
        door doors die Tür Türen / window windows das Fenster Fenster Fensters / wall walls die Wand Wände""",
    "food": """
        apple apples der Apfel Äpfel Apfels / cake cakes der Kuchen Kuchen Kuchens / soup soups die Suppe Suppen
        egg eggs das Ei Eier Eis / potato potatoes die Kartoffel Kartoffeln / pear pears die Birne Birnen
        bread - das Brot - Brotes / cheese - der Käse - Käses / meat - das Fleisch - Fleisches""",
    "drink": """
        milk - die Milch - / water - das Wasser - Wassers / coffee - der Kaffee - Kaffees / tea - der Tee - Tees
        wine - der Wein - Weines""",
    "vehicle": """
        car cars das Auto Autos Autos / bicycle bicycles das Fahrrad Fahrräder Fahrrads
        boat boats das Boot Boote Bootes""",
    "scheduled": """
        train trains der Zug Züge Zuges / bus buses der Bus Busse Busses / ship ships das Schiff Schiffe Schiffes
        tram trams die Straßenbahn Straßenbahnen""",
    "plant": "flower flowers die Blume Blumen / tree trees der Baum Bäume Baumes / rose roses die Rose Rosen",
    "task": """
        question questions die Frage Fragen / problem problems das Problem Probleme Problems
        exam exams die Prüfung Prüfungen""",
    "answer": "answer answers die Antwort Antworten",
    "plan": "plan plans der Plan Pläne Planes",
    "show": """
        film films der Film Filme Filmes / song songs das Lied Lieder Liedes
        story stories die Geschichte Geschichten""",
    "photo": "photo photos das Foto Fotos Fotos",
    "money": "money - das Geld - Geldes",
    "firm": "company companies die Firma Firmen",
    "seat": "seat seats der Platz Plätze Platzes",
    "stone": "stone stones der Stein Steine Steines",
    "time": "weekend weekends das Wochenende Wochenenden Wochenendes / summer summers der Sommer Sommer Sommers",
    "event": """
        party parties das Fest Feste Festes / concert concerts das Konzert Konzerte Konzertes
        meeting meetings die Sitzung Sitzungen / journey journeys die Reise Reisen""",
    "weather": "rain - der Regen - Regens / wind - der Wind - Windes / snow - der Schnee - Schnees",
    "place in": """
        house houses das Haus Häuser Hauses / garden gardens der Garten Gärten Gartens / city cities die Stadt Städte
        village villages das Dorf Dörfer Dorfes / school schools die Schule Schulen / church churches die Kirche Kirchen
        park parks der Park Parks Parks / kitchen kitchens die Küche Küchen / room rooms das Zimmer Zimmer Zimmers
        forest forests der Wald Wälder Waldes / library libraries die Bibliothek Bibliotheken
        museum museums das Museum Museen Museums / shop shops der Laden Läden Ladens
        hotel hotels das Hotel Hotels Hotels
        castle castles das Schloss Schlösser Schlosses / bank banks die Bank Banken""",
    "place at": "station stations der Bahnhof Bahnhöfe Bahnhofs / beach beaches der Strand Strände Strandes",
    "water at": "river rivers der Fluss Flüsse Flusses / lake lakes der See Seen Sees",
    "surface": """
        table tables der Tisch Tische Tisches / chair chairs der Stuhl Stühle Stuhles / bed beds das Bett Betten Bettes
        bench benches die Bank Bänke / shelf shelves das Regal Regale Regals""",
}

THINGS = "thing picture surface food drink vehicle scheduled"
# English: German, for which kinds of noun. The e after '~' falls out before an ending: teuer, teure.
ADJECTIVES = f"""
    old: alt, person animal thing wall picture surface vehicle scheduled place plant firm show
    young: jung, person animal / clever: klug, person animal / strong: stark, person animal
    small: klein, animal thing picture surface vehicle place plant firm
    big: groß, animal thing picture surface vehicle place plant firm
    new: neu, thing wall picture surface vehicle scheduled place plan firm show
    white: weiß, animal thing wall surface vehicle plant
    beautiful: schön, person animal thing picture place water plant show event time
    black: schwarz, animal thing surface vehicle
    red: rot, thing wall surface vehicle plant / green: grün, thing wall surface vehicle
    blue: blau, thing wall surface vehicle
    cheap: billig, {THINGS} / expensive: teu~er, {THINGS} / warm: warm, clothes food drink room time
    cold: kalt, food drink water weather time / fresh: frisch, food drink
    clean: sauber, thing wall surface vehicle place water
    dirty: schmutzig, thing wall surface vehicle water / broken: kaputt, upright bag wall vehicle
    empty: leer, upright bag place
    friendly: freundlich, person / poor: arm, person / rich: reich, person / happy: glücklich, person
    tired: müde, person animal
    hungry: hungrig, person animal / ill: krank, person animal / famous: berühmt, person picture show firm
    interesting: interessant, text picture show plan task answer / boring: langweilig, text show event
    important: wichtig, person text plan task answer event / long: lang, text show event
    dangerous: gefährlich, animal water
    quiet: ruhig, person place / dark: dunk~el, clothes place
    heavy: schwer, thing surface stone / heavy: stark, weather
    light: leicht, upright bag clothes stone / light: hell, place
    hard: hart, bread cheese apple pear surface stone / hard: schwer, task
    free: kostenlos, food drink show event / free: frei, seat
    short: klein, person / short: kurz, text show event
    right: richtig, answer plan / bright: klug, person / bright: hell, upright place
"""
COMPARATIVES = """
    old older älter / young younger jünger / big bigger größer / small smaller kleiner / strong stronger stärker
    cheap cheaper billiger / new newer neuer / clean cleaner sauberer / dirty dirtier schmutziger / rich richer reicher
    poor poorer ärmer / clever cleverer klüger / expensive more_expensive teurer / beautiful more_beautiful schöner
    interesting more_interesting interessanter / famous more_famous berühmter / dangerous more_dangerous gefährlicher
"""

# Who does it: lines of "English | infinitive present [ist] participle [past] | government and kinds of the object".
# Irregular verbs give past and participle. `put+on` has a particle, `wait.for` a preposition. `auf·machen` separates.
# Government: nothing is the accusative; `dat`; or a preposition with its case. `sich` marks a reflexive verb.
VERBS = {
    "person": """
        buy bought bought | kaufen kauft gekauft | thing picture surface food drink vehicle plant
        sell sold sold | verkaufen verkauft verkauft | thing picture surface food vehicle plant animal
        see saw seen | sehen sieht gesehen | person animal thing picture surface vehicle scheduled plant place water
        find found found | finden findet gefunden | animal thing picture answer money
        lose lost lost | verlieren verliert verloren | flat bag money
        have had had | haben hat gehabt hatte | thing picture animal vehicle plan task
        carry | tragen trägt getragen | upright bag stone
        wear wore worn | tragen trägt getragen | clothes
        repair | reparieren repariert repariert | bag wall vehicle surface
        read read read | lesen liest gelesen | text
        write wrote written | schreiben schreibt geschrieben | book letter story
        eat ate eaten | essen isst gegessen | food
        drink drank drunk | trinken trinkt getrunken | drink
        wash | waschen wäscht gewaschen | clothes upright vehicle
        clean | putzen putzt geputzt | wall surface kitchen room house shop
        open | auf·machen macht aufgemacht | wall bag
        close | zu·machen macht zugemacht | wall bag
        put+on put put | an·ziehen zieht angezogen | clothes
        take+off took taken | aus·ziehen zieht ausgezogen | clothes
        throw+away threw thrown | weg·werfen wirft weggeworfen | thing picture food
        pick+up | ab·holen holt abgeholt | person
        invite | ein·laden lädt eingeladen | person
        visit | besuchen besucht besucht | person place
        love | lieben liebt geliebt liebte | person animal place show food
        hate | hassen hasst gehasst hasste | person show weather
        like | mögen mag gemocht mochte | person animal place show food drink
        know knew known | kennen kennt gekannt kannte | person animal place text show answer
        call | an·rufen ruft angerufen | person
        call | rufen ruft gerufen | animal
        miss | vermissen vermisst vermisst | person animal
        miss | verpassen verpasst verpasst | scheduled event
        leave left left | verlassen verlässt verlassen | person place
        spend spent spent | aus·geben gibt ausgegeben | money
        spend spent spent | verbringen verbringt verbracht | time
        save | sparen spart gespart | money
        save | retten rettet gerettet | person animal
        change | wechseln wechselt gewechselt | money
        change | ändern ändert geändert | plan
        paint | streichen streicht gestrichen | wall surface
        paint | malen malt gemalt | picture plant
        take took taken | nehmen nimmt genommen | thing picture scheduled
        take took taken | machen macht gemacht | photo
        run ran run | leiten leitet geleitet | firm
        grow grew grown | an·bauen baut angebaut | apple potato pear
        answer | beantworten beantwortet beantwortet | question letter
        answer | antworten antwortet geantwortet | dat person
        understand understood understood | verstehen versteht verstanden | person text task plan show
        explain | erklären erklärt erklärt | task plan answer
        forget forgot forgotten | vergessen vergisst vergessen | person thing plan show answer
        hear heard heard | hören hört gehört | person animal song story scheduled weather
        feed fed fed | füttern füttert gefüttert | animal
        steal stole stolen | stehlen stiehlt gestohlen | thing picture vehicle money
        ask | fragen fragt gefragt | person
        look.for | suchen sucht gesucht | person animal thing answer money seat place
        help | helfen hilft geholfen | dat person
        thank | danken dankt gedankt | dat person
        follow | folgen folgt ist gefolgt | dat person animal
        listen.to | zu·hören hört zugehört | dat person
        wait.for | warten wartet gewartet | auf:acc person scheduled answer
        think.of thought thought | denken denkt gedacht | an:acc person animal place plan
        talk.about | sprechen spricht gesprochen | über:acc person plan task show weather
        dream.of | träumen träumt geträumt | von:dat person place vehicle
        remember | sich erinnern erinnert erinnert | an:acc person place show
        laugh.at | lachen lacht gelacht | über:acc show answer""",
    "animal": """
        see saw seen | sehen sieht gesehen | person animal
        hear heard heard | hören hört gehört | person animal
        eat ate eaten | fressen frisst gefressen | food
        look.for | suchen sucht gesucht | food animal
        follow | folgen folgt ist gefolgt | dat person animal""",
}
GIVING = """
    give gave given | geben gibt gegeben | thing food money picture
    show showed shown | zeigen zeigt gezeigt | thing picture animal vehicle plan
    send sent sent | schicken schickt geschickt | text clothes money photo
    bring brought brought | bringen bringt gebracht | thing food drink plant
    lend lent lent | leihen leiht geliehen | thing vehicle money
    explain | erklären erklärt erklärt | task plan
"""  # the person is in the dative; English says it with `to`
PLACING = "put put put | stellen stellt gestellt | upright / put put put | legen legt gelegt | flat"
RESTING = {"upright": ("steht stehen", "stand standen"), "flat": ("liegt liegen", "lag lagen")}  # what `be on` becomes
ACTING = {
    "person": """
        sleep slept slept | schlafen schläft geschlafen / work | arbeiten arbeitet gearbeitet
        laugh | lachen lacht gelacht
        sing sang sung | singen singt gesungen / dance | tanzen tanzt getanzt
        swim swam swum | schwimmen schwimmt ist geschwommen
        wait | warten wartet gewartet / cry | weinen weint geweint / get+up got got | auf·stehen steht ist aufgestanden
        fall+asleep fell fallen | ein·schlafen schläft ist eingeschlafen / play | spielen spielt gespielt
        come+back came come | zurück·kommen kommt ist zurückgekommen / run ran run | laufen läuft ist gelaufen""",
    "animal": """
        sleep slept slept | schlafen schläft geschlafen / run ran run | laufen läuft ist gelaufen
        come+back came come | zurück·kommen kommt ist zurückgekommen""",
    "scheduled": "leave left left | ab·fahren fährt ist abgefahren / arrive | an·kommen kommt ist angekommen",
    "plant": "grow grew grown | wachsen wächst ist gewachsen",
}
GOING = (
    "go went gone | gehen geht ist gegangen / walk | gehen geht ist gegangen / run ran run | laufen läuft ist gelaufen"
)
RIDING = (
    "go went gone | fahren fährt ist gefahren / travel travelled travelled | reisen reist ist gereist"  # with a means
)
TELLING = """
    know knew known | wissen weiß gewusst wusste / say said said | sagen sagt gesagt / hope | hoffen hofft gehofft
    think thought thought | glauben glaubt geglaubt / hear heard heard | hören hört gehört
    forget forgot forgotten | vergessen vergisst vergessen
"""
ASKING = """
    ask | fragen fragt gefragt / know knew known | wissen weiß gewusst wusste
    forget forgot forgotten | vergessen vergisst vergessen"""

TRYING = """
    try | versuchen versucht versucht / promise | versprechen verspricht versprochen
    begin began begun | an·fangen fängt angefangen
    forget forgot forgotten | vergessen vergisst vergessen
"""  # with an infinitive after it

NAMES = "Anna she / Maria she / Clara she / Emma she / Peter he / Paul he / Thomas he / Felix he"
TIMES = {
    "past": """
        yesterday: gestern / last week: letzte Woche / last year: letztes Jahr / last night: letzte Nacht
        on Monday: am Montag""",
    "present": """
        today: heute / now: jetzt / every day: jeden Tag / every week: jede Woche / in the morning: am Morgen
        in the evening: am Abend""",
    "future": """
        tomorrow: morgen / next week: nächste Woche / next year: nächstes Jahr / soon: bald
        on Sunday: am Sonntag""",
}
FREQUENCIES = "often: oft / always: immer / never: nie / sometimes: manchmal / rarely: selten"
MANNERS = "slowly: langsam / quickly: schnell / quietly: leise"


@dataclass(frozen=True, eq=False)
class Noun:
    english: tuple[str, str]  # singular, plural ('' for what has none)
    german: tuple[tuple[str, ...], tuple[str, ...]]  # singular and plural, by case
    gender: int
    kinds: frozenset[str]
    pronoun: str  # he, she, it; '' where English has no sure one (child)


@dataclass(frozen=True, eq=False)
class Adjective:
    english: str
    german: str
    stem: str  # before an ending: teur-, dunkl-
    kinds: frozenset[str]


@dataclass(frozen=True, eq=False)
class Verb:
    english: tuple[str, str, str, str]  # base, he ..., past, participle
    particle: str  # put on the coat, put it on
    preposition: str  # wait for the bus, wait for it
    infinitive: str  # without the part that separates
    present: str  # er ...
    participle: str
    past: str  # only of verbs that German prefers in the simple past, else ''
    prefix: str
    auxiliary: str  # haben or sein
    reflexive: bool
    case: int
    german_preposition: str
    kinds: frozenset[str]


def lines(table: str) -> list[str]:
    return [entry.strip() for line in table.splitlines() for entry in line.split(" / ") if entry.strip()]


def noun(kinds: str, line: str) -> Noun:
    singular, plural, article, german, german_plural, *rest = line.split()
    gender = {"der": MASCULINE, "die": FEMININE, "das": NEUTER}[article]
    genitive = rest[0] if rest else german
    weak = gender == MASCULINE and genitive.endswith("n")  # der Junge, den Jungen
    oblique = genitive if weak else german
    dative_plural = german_plural if german_plural.endswith(("n", "s")) else german_plural + "n"
    words = kinds.split()
    person = "person" in words
    return Noun(
        english=(singular, "" if plural == "-" else plural),
        german=((german, oblique, oblique, genitive), (german_plural, german_plural, dative_plural, german_plural)),
        gender=gender,
        kinds=frozenset([*words, singular]),
        pronoun=next((word for word in words if word in ("he", "she")), "" if person else "it"),
    )


def adjective(line: str) -> Adjective:
    english, _, rest = line.partition(": ")
    german, kinds = rest.split(", ")
    kept, _, fallen = german.partition("~e")
    stem = kept + fallen if fallen else german.removesuffix("e")
    return Adjective(english, german.replace("~", ""), stem, frozenset(kinds.split()))


def third_person(base: str) -> str:
    if base == "have":
        return "has"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "o")) else "s")


def regular_past(base: str) -> str:
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


def verb(line: str) -> Verb:
    english, german, *government = (column.strip() for column in line.split("|"))
    head, *irregular = english.split()
    base, _, particle = head.partition("+")
    base, _, preposition = base.partition(".")
    past, participle = irregular or [regular_past(base)] * 2
    words = german.split()
    reflexive = words[0] == "sich"
    separated, _, infinitive = words[reflexive].rpartition("·")
    present, *rest = words[reflexive + 1 :]
    to_be = rest[0] == "ist"
    german_participle, *simple_past = rest[to_be:]
    kinds = government[0].split() if government else []
    case, german_preposition = ACCUSATIVE, ""
    if kinds and (kinds[0] == "dat" or ":" in kinds[0]):
        german_preposition, _, name = kinds.pop(0).rpartition(":")
        case = CASES[name]
    return Verb(
        english=(base, third_person(base), past, participle),
        particle=particle,
        preposition=preposition,
        infinitive=infinitive,
        present=present,
        participle=german_participle,
        past=simple_past[0] if simple_past else "",
        prefix=separated,
        auxiliary="sein" if to_be else "haben",
        reflexive=reflexive,
        case=case,
        german_preposition=german_preposition,
        kinds=frozenset(kinds),
    )


def phrases(table: str) -> tuple[tuple[str, str], ...]:
    """Lines of "English: German" that never change."""
    return tuple((english, german) for english, _, german in (entry.partition(": ") for entry in lines(table)))


ALL_NOUNS = tuple(noun(kinds, line) for kinds, table in NOUNS.items() for line in lines(table))
ALL_ADJECTIVES = tuple(adjective(line) for line in lines(ADJECTIVES))
