"""Words for joints, bones and sides in German, French, Spanish, Italian, Portuguese and Dutch."""

import unicodedata

__all__ = ["find_foreign_side", "fold_letters", "translate_part"]

# English part without underscores -> its words; nouns that several languages share stand once
_WORDS = {
    "head": "kopf schädel tête cabeza testa cabeça hoofd",
    "neck": "hals nacken cou nuque cuello collo pescoço nek",
    "torso": "rumpf oberkörper tronc torse tronco busto romp",
    "chest": "brust brustkorb poitrine pecho tórax petto torace peito borst borstkas",
    "spine": "wirbelsäule bauch rachis espina columna colonna coluna wervelkolom",
    "hip": "hüfte hüftgelenk hüften becken beckenmitte hüftmitte hanche hanches bassin cadera caderas anca bacino "
    "quadril heup bekken",
    "spineshoulder": "schultermitte",
    "clavicle": "schlüsselbein clavicule clavícula clavicola sleutelbeen",
    "shoulder": "schulter schultergelenk épaule hombro spalla ombro schouder",
    "upperarm": "oberarm bras brazo braccio braço bovenarm",
    "elbow": "ellbogen ellenbogen ellenbogengelenk coude codo gomito cotovelo elleboog",
    "forearm": "unterarm avantbras antebrazo avambraccio antebraço onderarm",
    "wrist": "handgelenk poignet muñeca polso punho pulso pols",
    "hand": "main mano mão",
    "thigh": "oberschenkel cuisse muslo coscia coxa bovenbeen dijbeen",
    "knee": "kniegelenk knie genou rodilla ginocchio joelho",
    "shin": "unterschenkel tibia jambe pierna gamba perna onderbeen scheenbeen",
    "ankle": "sprunggelenk fußgelenk knöchel fußknöchel cheville tobillo caviglia tornozelo enkel",
    "foot": "fuß pied pie piede pé voet",
    "toe": "zeh zehe zehen fußspitze orteil orteils dedo punta teen tenen",
    "heel": "ferse talon talón tallone calcanhar hiel",
    "thumb": "daumen pouce pulgar pollice polegar duim",
    "nose": "nase nez nariz naso neus",
    "eye": "auge œil oeil ojo occhio olho oog",
    "ear": "ohr oreille oreja orecchio orelha oor",
}  # fmt: skip
_SIDES = {
    "left": "links linke linker linkes gauche izquierda izquierdo izq sinistra sinistro sx esquerda esquerdo esq li",
    "right": "rechts rechte rechter rechtes droite droit derecha derecho der destra destro dx direita direito dir re",
}
# letters that Unicode does not take apart
_LETTERS_WITHOUT_PARTS = {"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "œ": "oe", "æ": "ae"}
# single letters mean a side only beside a word of these languages: Main_G, Spalla_D
_LETTERS = {"g": "left", "s": "left", "e": "left", "i": "left", "d": "right"}


def fold_letters(text: str) -> str:
    """Return text without accents: letters of the Latin alphabet become plain ones, others stay.

    >>> fold_letters("Hüfte, Fuß, Épaule, Łokieć, 左手")
    'Hufte, Fuss, Epaule, Lokiec, 左手'
    """
    for letter, plain in _LETTERS_WITHOUT_PARTS.items():
        text = text.replace(letter, plain)
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))


def _spell(word: str) -> set[str]:
    """Return the spellings of a word: without accents, and with ae, oe, ue for umlauts."""
    long = word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    return {fold_letters(word), fold_letters(long)}


_PART_OF = {
    spelling: part for part, words in _WORDS.items() for word in words.split() for spelling in _spell(word)
}
_SIDE_OF = {word: side for side, words in _SIDES.items() for word in words.split()}


def translate_part(part: str) -> str:
    """Return the English part of a body, without underscores; unknown and English words stay.

    >>> translate_part("ellenbogen"), translate_part("avantbras"), translate_part("forearm")
    ('elbow', 'forearm', 'forearm')
    """
    return _PART_OF.get(part, part)


def find_foreign_side(words: list[str]) -> tuple[str, list[str]]:
    """Return the side ("left", "right" or "") that a word of a name says, and the other words.

    >>> find_foreign_side(["schulter", "links"]), find_foreign_side(["main", "g"]), find_foreign_side(["head", "d"])
    (('left', ['schulter']), ('left', ['main']), ('', ['head', 'd']))
    """
    for at, word in enumerate(words):
        other_words = words[:at] + words[at + 1 :]
        if word in _SIDE_OF and other_words:
            return _SIDE_OF[word], other_words
        if word in _LETTERS and at in (0, len(words) - 1) and "".join(other_words) in _PART_OF:
            return _LETTERS[word], other_words
    if len(words) == 1:  # linkeschulter, schulterlinks
        for side_word in sorted(_SIDE_OF, key=len, reverse=True):
            for rest_word in (words[0].removeprefix(side_word), words[0].removesuffix(side_word)):
                if rest_word != words[0] and len(side_word) > 1 and rest_word in _PART_OF:
                    return _SIDE_OF[side_word], [rest_word]
    return "", words
