"""What the headings of a table from elsewhere say: which column of `runs.csv` each is, and in which unit it counts.

A heading is read as words and a unit: `Throughput (k img/s) per GPU` is the throughput of one worker, in thousands.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from dlbench.analysis.arms import IMPORTED, WORKER_RATE
from dlbench.errors import UserError, nearest, shown
from dlbench.grouping import by_key
from dlbench.records.outcome import Status
from dlbench.scenario.metrics import BUILT_IN, RATE, TIME_TO_TARGET, TRAIN_TIME
from dlbench.study.table_file import Table

# Begins the columns that are none of dlbench's: what they hold tells arms apart.
OTHER = f"{IMPORTED}."
# Of a step and its batch follows the rate.
STEP_TIME = "step_time_s"
REPEAT = "repeat"
STATUS = "status"
_STATUS_WORDS = {
    Status.COMPLETED: "-,✅,✓,✔,completed,complete,ok,success,succeeded,done,finished,passed,yes,y,true,converged",
    Status.OUT_OF_MEMORY: "out of memory,oom,cuda oom,cuda out of memory",
    Status.FAILED: "❌,✗,✘,\u00d7,failed,fail,failure,error,crash,crashed,dnf,no,n,false,node fail,boot fail",
    Status.DIVERGED: "diverged",
    Status.TIMEOUT: "timeout,timed out",
    Status.STALLED: "stalled",
    Status.INTERRUPTED: "interrupted,killed,cancelled,canceled,preempted",
}
_STATUSES = {"": Status.COMPLETED} | {
    word: status for status, words in _STATUS_WORDS.items() for word in words.split(",")
}
# Cells that say that there is nothing.
NOTHING = ("", "na", "n/a", "nan", "none", "null", "-", "\N{EN DASH}", "\N{EM DASH}")
# Columns that say whether a run failed.
_FAILURE = "(exit|return)code|rc|fail(ed|ure)|crash(ed)?|oom"
# Cells that say that it did not, or that something is not used; `0:0` is Slurm's.
_NO = (*NOTHING, "0", "0.0", "0:0", "no", "n", "off", "false")
# Words of headings, and the one that stands for them below.
_WORDS = {
    "": "of de der the in mean average avg median",
    "workers": "gpus ngpus numgpus numworkers devices accelerators procs nprocs processes ranks ntasks tpus chips npus "
    "hpus ipus gcds",
    "worker": "gpu device accelerator proc process rank tpu chip npu hpu ipu gcd",
    "hosts": "nodes nnodes numnodes numhosts machines instances vms",
    "host": "node server instance vm",
    "item": "img imgs image images sample samples example examples token tokens tok toks sequence sequences seq seqs "
    "word words sentence sentences",
    "microsecond": "us µs μs usec microseconds",
    "millisecond": "ms msec milliseconds",
    "second": "s sec secs seconds",
    "minute": "min mins minutes",
    "hour": "h hr hrs hours",
    "day": "d days",
    "percent": "pct percentage",
    "step": "steps it iter iters iteration iterations",
    "thousand": "k",
    "million": "m mio millions",
    "num": "no nb number count anzahl nombre",
    "global": "total overall aggregate",
    "validation": "val test eval",
    "train": "training",
    "accuracy": "acc",
    "efficiency": "eff",
    "relative": "rel normalized normalised",
    "price": "usd eur dollar dollars cost costs",
}
_SINGULAR = "|".join(f"worker host machine {_WORDS['worker']} {_WORDS['host']}".split())
_MEANS = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_MEANS |= {f"{k}{word}": f"{_MEANS[k]}item" for word in _WORDS["item"].split() for k in "km"}
_TIME, _RATE, SHARE = "s", "samples/s", "0 to 1"
# Units at the end of a heading: what is measured, by what its numbers are multiplied, and the noun that it implies.
_UNITS = {
    "thousanditempersecond": (_RATE, "1000", "rate"),
    "millionitempersecond": (_RATE, "1000000", "rate"),
    "itemperminute": (_RATE, "1/60", "rate"),
    "itemperhour": (_RATE, "1/3600", "rate"),
    "itempersecond": (_RATE, "1", "rate"),
    "itemsecond": (_RATE, "1", "rate"),
    "persecond": (_RATE, "1", "rate"),
    "microsecond": (_TIME, "0.000001", "time"),
    "millisecond": (_TIME, "0.001", "time"),
    "second": (_TIME, "1", "time"),
    "minute": (_TIME, "60", "time"),
    "hour": (_TIME, "3600", "time"),
    "day": (_TIME, "86400", "time"),
    "percent": (SHARE, "0.01", ""),
}
_ADJECTIVES = "(global|train|sustained|steady|achieved|actual|measured|effective|wall|clock|elapsed)*"
_WHEN = "(best|final|last|reached)?"
# `Acc@1`, `acc1`, `Prec@1`.
_TOP_1 = "(top1accuracy|accuracytop1|accuracy1?|acc1|prec1|top1)"
_GOAL = "(train|convergence|target|quality|loss|(validation|top1)*accuracy)"
_A_RATE = f"{_ADJECTIVES}(throughput(rate)?|speedrate|rate)"
# What tables call columns, in the words above, without a unit, with `global` first, `perstep` and `perworker` last.
NAMES = {
    "workers": "(n|num|global)*(workers|worldsize|np)(num)*|workernum|numworker",
    "hosts": "(num|global|alloc)*hosts(num)*|hostnum",
    "workers_per_host": "(num)?(workers?|np|nproc)per(host|machine)",
    "batch_size": "(local|mini)?(train)?(batch(size)?|bs)(perworker)?",
    "batch_size_global": "(global|effective)(train)?(batch(size)?|bs)",
    "strategy": "strategy|method|sync|synchroni[sz]ation|backendstrategy",
    "model": "model|network|architecture",
    "dataset": "dataset|data",
    "precision": "precision|dtype",
    "device_name": "worker(name|type|model)?|hw|hardware|machine",
    REPEAT: "repeat|trial|repetition|seed",
    STATUS: "(run|train|exit)?status|state|outcome|result|converged|reached(target)?|success(ful)?|succeeded|passed"
    "|completed|finished",
    "samples_per_s": _A_RATE,
    WORKER_RATE: f"{_A_RATE}perworker",
    "mfu": "mfu|modelflops?utili[sz]ation",
    # Beside `timeto`, `time` is the noun of a unit.
    "train_time_s": f"{_ADJECTIVES}((t?time|runtime|duration)+|timeto{_GOAL}(time)?)|elapsedraw",
    TIME_TO_TARGET.column: r"timeto\d+(percent(validation|top1|accuracy)*|(validation|top1)*accuracy)(time)?",
    STEP_TIME: f"{_ADJECTIVES}((step|batch)(time)+|(time)+perstep)",
    "validation_accuracy": f"{_WHEN}(validation|itemnet)*{_TOP_1}(validation)?",
    "train_accuracy": f"{_WHEN}(train{_TOP_1}|{_TOP_1}train)",
    "validation_mean_squared_error": "(validation)?(squarederror|mse)",
    "validation_loss": f"{_WHEN}(validationloss|lossvalidation)",
    "train_loss": f"{_WHEN}((train)?loss|losstrain)",
    "epochs": "(num)?epochs",
    "learning_rate": "learningrate|lr",
}
# What follows from other columns, or says when and by whom a line was measured: it would keep repeats apart.
# A column of numbers of lines has no words.
_NO_SETTING = re.compile(
    ".*(efficiency|speedup)((vs|over|to|from|per|relative|\\d).*)?(time|rate|percent|num|scaling|x)*"
    "|relative(train)?(performance|throughput|time|rate|speed|price).*|.*(price|energy|co2|emission).*|hourlyrate"
    "|.*per(w|watts?|j|joules?)|(thousand|million)?(wh|watthours?|joules?)"
    "|(allreduce|comm|communication|forward|backward|data(load(ing)?)?)(time)+"
    "|(percent|relative|scaling|performance|throughput)*(vs)?linear(scaling)?|hfu(percent)?|unnamed\\d*"
    "|(global)?(peak|max)(worker|host)?(memory|mem).*|.*utili[sz]ation"
    "|(achieved)?(g|giga|t|tera|p|peta)?flops?(rate)?(perworker)?"
    "|workers?time|.*steprate|(validation|compile)(run)?(time|rate)+"
    "|(train|global)*((time)*epoch(time)+|(time|second|minute|hour)+perepoch(time)*)"
    "|(global)?((best|peak|ideal|max|minimum|maximum|step|train)*(time|throughput|rate|accuracy|loss))+"
    "(per(worker|step))*(max|minimum|maximum)?|(time|epochs|step)to.*"
    "|(run|start|end)?(date|timestamp|datetime)|(start|end)time|created(at)?"
    "|(run|job|line|row)num|(run|job|line|row)?(id|index)|run"
    f"|notes?|comments?|remarks?|{_FAILURE}|"
)
_SCORE = re.compile(
    f"({_WHEN}(validation|train|macro|micro|top\\d|box|mask|sacre))*{_WHEN}(perplexity|ppl|f1|bleu|rouge|map|(million)?ap"
    "|bp[bc]|auc|auroc|wer|cer|m?(illion)?iou|score|accuracy|acc|prec\\d|loss|err(or)?(rate)?|top\\d|recall|sensitivity"
    "|specificity)+(top\\d|\\d+|l|cased|uncased)?"
)
_OF_SCORE = re.compile(
    r"(?!.*(target|grad|goal|thresh|stop|step|scale|weight|alpha|gamma|packet))(.*(?<![a-z]))?(acc(uracy)?|top.?\d|loss|recall|sensitivity|specificity|f1|bleu|auc)(?![a-z])",
    re.IGNORECASE,
)
# Of a classifier where it holds 0.91 or 91%.
_PRECISION = re.compile(r"(val\w*|test|eval|macro|micro)?[\W_]*precision\W*", re.IGNORECASE)
_ONE_LINE = "write one line for each run (gpus, model, repeat or strategy, throughput), not a column for each"
# What may number repeats.
_NUMBERS = re.compile("run(id|num|index)?|id|num|index")
# What may be measured, or chosen.
_DOUBTFUL = re.compile(
    "n|num|error|latency|(weak|strong)?scaling(factor)?|minute|minimum|max|maximum|low(er)?|high|upper|variance|jitter"
    "|(global|worker)*power(draw|usage)?((k|m|thousand)?(w|watts?))?"
)
_MEASURE = f"(time|throughput|rate|accuracy|loss|latency|{'|'.join(_UNITS)})*"
_CI = r"(\d\d(percent)?)?ci(\d\d)?"
# Of a line that is the mean of several runs: how many, and how they scatter. `minute` is `min` alone.
_OF_MEANS = re.compile(
    "n|n?(num)?(runs|repeats|repetitions|replicates|trials|reps|seeds)"
    f"|.*(stddev|stdev|stderr|std|stderror|standarderror|errorbars?){_MEASURE}|{_MEASURE}(minute|minimum|max|maximum"
    f"|({_CI})?(low(er)?|high|upper)({_CI})?|cv|variance|iqr|jitter|p\\d\\d|sd|se|err|{_CI}){_MEASURE}"
)
# How many there were, of what is not said; `#` may also number the lines.
_AMOUNT = re.compile(r"#|n|num|number|count|qty|quantity|anzahl|nombre", re.IGNORECASE)
_SUMMARY = re.compile("mean|avg|average|median|std|sd|stdev|min|max|total|sum|best|overall", re.IGNORECASE)
_ERROR = re.compile(r"(top.?\d|val\w*|test).?err(?!.*(std|dev|bar))", re.IGNORECASE)
# `error` alone may be one of the mean.
_BARE_ERROR = re.compile(r"err(or)?s?([ _]rate|[\W_]*(%|percent|pct)).*", re.IGNORECASE)
_COUNTS = (
    r"gpu|node|worker|device|rank|accelerator|processors|replicas|data.?parallel|(?<![a-z])dp(?![a-z])"
    r"|(tasks|cores|cpus|cards)$|#?\W*[a-z]+\d+[a-z]*s$|#\W*[a-z]+\d"  # A100s, # A100
)
# A GeForce 3090, and the number of a GPU: no count.
_NO_COUNT = re.compile("0|[1-5]0[5-9]0|16[56]0")
_HOSTS = "(num(ber)?|no|n|#)?[ _]*(of )?(node|host|machine|instance|vm)s"
_OF_A_LOG = re.compile(r"(?:.*[/.])?(?:global)?[ _]?(epoch|step|iter(?:ation)?)", re.IGNORECASE)
# 8x V100, 4x8 A100, V100 x8, 2 nodes; not 224x224.
_COUNTED = re.compile(
    r"\b\d+ ?[x\u00d7] ?(?!\d)|\b\d+ ?[x\u00d7] ?\d+ ?[a-z]+\d|(?<!\d)[x\u00d7] ?\d+$"
    r"|\b\d+ ?(gpu|tpu|node|host|worker|device|rank)s?\b",
    re.IGNORECASE,
)
# 8 A100, 4 KNLs, DGX A100 (8); not 16 GB V100, nor the GeForce 2080 Super.
_COUNT_OF = re.compile(
    rf"(?:(?!(?:{_NO_COUNT.pattern}) )(\d[\d,]*|one|two|four|eight|sixteen) )?"
    r"(?!(?:[kmgt]?i?b|[gm]hz|ti|ada)\b|layer)([^\W\d].*?)s?(?: \((\d+)\))?",
    re.IGNORECASE,
)
# 4x8 may be hosts and workers; 224x224 alone is a size.
_GRID = re.compile(r"\d{1,4} ?[x\u00d7] ?\d{1,3}", re.IGNORECASE)
_OF_SIZE = re.compile("size|resol|image|shape|dim|crop", re.IGNORECASE)
_SQUARE = re.compile(r"(\d+) ?[x\u00d7] ?\1", re.IGNORECASE)
_MOMENT = re.compile(r"(\d{4}[-/]\d\d?[-/]\d\d?|\d\d?[./]\d\d?[./]\d{4})[T ,]+\d\d?:\d\d.*")
# 3:10 may be a ratio; 1:30:00 is a time.
_CLOCK = re.compile(r"\d+(:\d\d){1,2}(\.\d+)?")
_OF_TIME = re.compile(
    r"times?(?![a-z]|.?step)|duration|elapsed|(?<![a-z])wall|hours|minutes|seconds(?![ _]per)|\b[hm]+:|\b[mu]?s ?/"
    r"|\b(s(ec(ond)?s?)?|min|h)( ?/ ?| per )epoch",
    re.IGNORECASE,
)
_PER_EPOCH = re.compile(r"epoch[ _-]?(time|duration)|(time|/)[ _-]?(of[ _]an[ _])?epoch|per[ _]epoch", re.IGNORECASE)
_OF_RATE = re.compile(r"throughput|\b[ftw]ps\b|(/|[ _]per[ _]) ?(s(ec\w*)?|min\w*|h(our)?|day)\b", re.IGNORECASE)
# What is chosen, also in seconds, and rates of a network, in bits or bytes.
_CHOSEN = re.compile(
    "interval|timeout|limit|window|length|delay|threshold|version|failed"
    r"|(?<![a-z])([kmgt]i?|kilo|mega|giga|tera)?b(its?|ytes?)?[ _]*(/|per)",
    re.IGNORECASE,
)
_OF_PRICE = re.compile("price|cost|energy|co2|emission", re.IGNORECASE)
# 3.2 kWh, $3, EUR 3: no words.
_AMOUNT_OF = re.compile(r"([A-Z]{3} )?\W*\d")
# `num_microbatches` is no size.
_MICRO_BATCH = re.compile(r"(?!.*(num|count|#)).*micro.?batch(?!es)", re.IGNORECASE)
ACCUMULATED = re.compile(r"accum|grad\w*[ _]?acc", re.IGNORECASE)
# Several workers then share a batch.
_MODEL_PARALLEL = re.compile(
    r"(?<![a-z])([tp]p(?![a-z])|(tensor|pipe(line)?)[\W_]*(model[\W_]*)?(parallel|size)|model[\W_]*parallel)",
    re.IGNORECASE,
)
_UNIT_COLUMN = re.compile("units?|uom|metric|measure", re.IGNORECASE)
# What the numbers of each measurement are.
MEASURED = {name: metric.unit or (SHARE if metric.most == 1 else "") for name, metric in BUILT_IN.items()}
MEASURED |= {WORKER_RATE: _RATE, STEP_TIME: _TIME}
# The rate, and what it follows from: one of them is taken, what the user names first.
_RATES = (RATE.column, WORKER_RATE, STEP_TIME)
# What a heading says in its own words is not overruled by a name that means another quantity of the same unit.
_SPECIAL = {WORKER_RATE: RATE.column, STEP_TIME: TRAIN_TIME.column}


@dataclass(frozen=True)
class Heading:
    """What a column of a table is.

    Attributes:
        theirs: Its heading.
        column: That of `runs.csv`, or `OTHER` and its words; empty where it is left out.
        unit: What it says that its numbers measure; empty where it has no unit.
        factor: What its numbers are multiplied by.
        is_guessed: Whether the heading alone says so, not the user.
        is_bare: Whether it leaves open what is counted: the unit of a time, or whether of one worker or of all.
        may_number: Whether it may number repeats.
        is_of_means: Whether it says that lines are means of several runs.
        is_doubtful: Whether it is left out, and may be a setting.
        is_failure: Whether it is left out, and says whether a run failed.
        is_score: Whether it is left out, and a score that dlbench does not know.
    """

    theirs: str
    column: str
    unit: str = ""
    factor: Decimal = Decimal(1)
    is_guessed: bool = True
    is_bare: bool = False
    may_number: bool = False
    is_of_means: bool = False
    is_doubtful: bool = False
    is_failure: bool = False
    is_score: bool = False


def read_headings(table: Table, named: Mapping[str, str]) -> list[Heading]:
    """Return what each column of a table is; what is no known one tells arms apart.

    Args:
        table: The table.
        named: What the user says of columns, by their names.

    Raises:
        UserError: A named column is not there, two are the same, one has several meanings, or none is a measurement.
    """
    header, where = table.header, table.where()
    if unknown := next((name for name in named if name not in header), None):
        raise UserError(f"there is no column {shown(unknown)}", where=where, hint=nearest(unknown, header))
    # `time min` beside `time max` is the least time, not one in minutes.
    has_least = any(re.search(r"[ _](max|mean|median|avg)$", name, re.IGNORECASE) for name in header)
    guesses = [_guessed(name, has_least=has_least) for name in header]
    headings = [_named(guess, named[guess.theirs]) if guess.theirs in named else guess for guess in guesses]
    headings = _seen(_without_moments(_with_units(headings, table), table), table)
    taken = set[tuple[str, ...]]()
    for place, (each, cells) in enumerate(zip(headings, table.columns(), strict=True)):
        # `gpus` beside `ntasks`, the same on each line.
        if each.is_guessed and each.column in NAMES and (each.column, *cells) in taken:
            headings[place] = replace(each, column="")
        taken.add((each.column, *cells))
    for heading in headings:
        same = [each.theirs for each in headings if each.column == heading.column in NAMES]
        if len(same) > 1:
            hint = f"say which: --column '{same[0]}=' or --column '{same[1]}='"
            raise UserError(f"{same[0]} and {same[1]} are both taken for {heading.column}", where=where, hint=hint)
    _refuse_errors(headings, named, where)
    if not any(heading.column in MEASURED for heading in headings):
        raise UserError(f"no column is a measurement: {', '.join(header)}", where=where, hint=_missing(headings))
    _refuse_hidden(headings, table)
    _refuse_settings(headings, table)
    headings = [
        replace(each, column="", is_doubtful=True) if each.column.startswith(OTHER) and _is_time(each, cells) else each
        for each, cells in zip(headings, table.columns(), strict=True)
    ]
    _refuse_doubtful(headings, table)
    rates = [each for each in headings if each.column in _RATES]
    rates.sort(key=lambda each: (each.is_guessed, _RATES.index(each.column)))
    for other in rates[1:]:
        if STEP_TIME in (rates[0].column, other.column):
            headings[headings.index(other)] = replace(other, column="")
    columns = Counter(heading.column for heading in headings)
    # Names that differ in signs alone stay apart.
    return [
        replace(each, column=f"{each.column}_{place}") if each.column and columns[each.column] > 1 else each
        for place, each in enumerate(headings)
    ]


def _with_units(headings: Sequence[Heading], table: Table) -> list[Heading]:
    """Return the headings with the unit that a column names on each line.

    Raises:
        UserError: Lines have several units, or no measurement has that one.
    """
    result = [*headings]
    for unit, cells in zip(headings, table.columns(), strict=True):
        is_unit = unit.is_guessed and unit.column.startswith(OTHER) and _UNIT_COLUMN.fullmatch(unit.theirs)
        is_row = unit.column in MEASURED and not re.search(r"\d", cells[0])
        if is_row and _guessed(f"x ({cells[0]})", has_least=False).unit:
            hint = "write them into the headings, such as `throughput (img/s)`, and delete the line"
            raise UserError("units of columns are not read", where=table.where(table.lines[0][0]), hint=hint)
        if not is_unit or all(map(str.isdecimal, cells)):
            continue
        for place, each in enumerate(headings):
            full = _guessed(f"{each.theirs} ({cells[0]})", has_least=False)
            if each.is_guessed and each.column in MEASURED and not each.unit and full.column == each.column:
                result[place] = replace(full, theirs=each.theirs)
        if len({*cells}) > 1 or result == headings:
            hint = f"write it into the heading, such as `throughput (img/s)`, a file for each; {_ways(unit.theirs)}"
            raise UserError(f"{unit.theirs}: units of single lines are not read", where=table.where(), hint=hint)
    return result


def _without_moments(headings: Sequence[Heading], table: Table) -> list[Heading]:
    """Leave out columns of dates with times.

    Raises:
        UserError: There are several, as of the start and the end, and no time.
    """
    moments = [
        each.theirs
        for each, cells in zip(headings, table.columns(), strict=True)
        if each.is_guessed and any(cells) and all(map(_MOMENT.fullmatch, filter(None, cells)))
    ]
    measured = {each.column for each in headings} & {*MEASURED}
    is_timed = any(MEASURED[each] in (_TIME, _RATE) for each in measured)
    have_ends = all(re.search(end, str(moments), re.IGNORECASE) for end in ("start|beg[iu]n", "end|stop|finish"))
    if len(moments) > 1 and not is_timed and (have_ends or not measured):
        hint = "write the end minus the start as a column `time (s)`"
        raise UserError(f"{' and '.join(moments)} say when, and no column how long", where=table.where(), hint=hint)
    return [replace(each, column="") if each.theirs in moments else each for each in headings]


def _seen(headings: Sequence[Heading], table: Table) -> list[Heading]:
    """Return the headings as their cells show them: a `GPU` that counts workers, a `run` that numbers repeats."""
    taken = {each.column for each in headings}
    settings = [place for place, each in enumerate(headings) if each.column not in ("", *MEASURED, STATUS)]
    is_of_parts = "batch_size_global" not in taken and any(_MICRO_BATCH.match(each.theirs) for each in headings)
    seen = []
    for place, (heading, cells) in enumerate(zip(headings, table.columns(), strict=True)):
        is_price = heading.is_guessed and not heading.column and _OF_PRICE.search(heading.theirs)
        may_be_words = heading.is_doubtful or is_price
        if heading.column == "device_name" and heading.is_guessed and all(map(str.isdecimal, cells)):
            is_gpu = re.fullmatch("[gt]pu", heading.theirs, re.IGNORECASE)
            if "workers" in taken or not is_gpu or any(map(_NO_COUNT.fullmatch, cells)):
                meanings = ("workers", "device_name", "")["workers" in taken :]
                hint = " or ".join(f"--column '{heading.theirs}={ours}'" for ours in meanings)
                message = f"{heading.theirs} holds numbers: counts, names, or neither?"
                raise UserError(message, where=table.where(), hint=hint)
            heading = replace(heading, column="workers", is_bare=True)
        elif heading.column == STATUS and (words := [each for each in cells if not status_of(each, heading.theirs)]):
            words_of_others = ("state", "outcome", "result", "reached", "completed", "finished")
            may_be_setting = heading.is_guessed and heading.theirs.lower() in words_of_others
            is_status = any(map(status_of, {*cells} - {"", "-"}))
            if is_status or not may_be_setting:
                ways = "or leave the line out" if is_status else _ways(heading.theirs)
                hint = f"write one of {', '.join(Status)}; {ways}"
                raise UserError(f"{heading.theirs} is {shown(words[0])}", where=table.where(), hint=hint)
            heading = replace(heading, column=_other(heading.theirs))
        elif heading.column == "batch_size" and heading.is_guessed and heading.is_bare and is_of_parts:
            heading = replace(heading, column="batch_size_global")
        elif may_be_words and re.search(r"[^\W\d]", str(cells)) and not any(map(_AMOUNT_OF.match, cells)):
            is_error = heading.theirs.lower() == "error"
            heading = replace(heading, is_failure=True) if is_error else Heading(heading.theirs, _other(heading.theirs))
        elif heading.may_number and REPEAT not in taken:
            groups = by_key((tuple(line[each] for each in settings), line[place]) for _, line in table.lines)
            if all({*group} == {str(n + 1) for n in range(len(group))} for group in groups.values()):
                heading = replace(heading, column=REPEAT)
        _refuse_shares(heading, cells, table.where())
        seen.append(heading)
    return seen


def status_of(cell: str, theirs: str = "") -> Status | None:
    """Return how a run ended as trackers and Slurm say it: `OUT_OF_MEMORY`, `CANCELLED by 1000`; None if unknown.

    Under the heading `theirs`, such as `success`, 1 and 0 may say it, too.
    """
    if re.search("succe|passed|converged|reached", theirs.lower()) and re.fullmatch(r"[01](\.0)?", cell):
        return Status.COMPLETED if cell[0] == "1" else Status.FAILED
    words = re.sub(r"[\W_]+", " ", cell.lower().partition(" by ")[0]).strip()
    # Emoji may end with a selector.
    return _STATUSES.get(words or cell.strip("\ufe0f"))


def _refuse_shares(heading: Heading, cells: Sequence[str], where: str) -> None:
    """Refuse a column in percent that holds shares."""
    numbers = [float(cell) for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)]
    is_percent = heading.is_guessed and heading.unit == SHARE and heading.column in MEASURED
    if not is_percent or not any(0 < number <= 1 for number in numbers):
        return
    if max(numbers) > 1:
        message = f"{heading.theirs} is above 1 on some lines and below on others: shares, or percent?"
        hint = f"write 76.1 or 0.761 throughout, or --column '{heading.theirs}={heading.column}/100'"
        raise UserError(message, where=where, hint=hint)
    ways = " or ".join(f"--column '{heading.theirs}={heading.column}{way}'" for way in ("*1", "/100"))
    raise UserError(f"{heading.theirs} is 1 at most: shares, or percent?", where=where, hint=ways)


def _refuse_errors(headings: Sequence[Heading], named: Mapping[str, str], where: str) -> None:
    """Refuse errors in place of accuracies, also where the user names them so and no factor."""
    has_score = any(BUILT_IN.get(each.column, RATE).is_score for each in headings)
    for each in headings:
        is_taken = MEASURED.get(named.get(each.theirs, "")) == SHARE
        is_error = _ERROR.search(each.theirs) or ((is_taken or not has_score) and _BARE_ERROR.fullmatch(each.theirs))
        if is_error and (is_taken or (each.is_guessed and each.column not in MEASURED)):
            hint = f"write the accuracy, which is 1 - error; --column '{each.theirs}=' leaves it out"
            raise UserError(f"{each.theirs} is no accuracy", where=where, hint=hint)


def _refuse_hidden(headings: Sequence[Heading], table: Table) -> None:
    """Refuse what would be overlooked: summaries, failures, lines of epochs and of steps of jobs, workers in words."""
    columns = {each.column for each in headings}
    has_workers = not columns.isdisjoint(("workers", "workers_per_host"))
    ends = next((each for it, each in zip(headings, table.columns(), strict=True) if it.column == STATUS), None)
    ends = ends or [""] * len(table.lines)
    for place, (heading, cells) in enumerate(zip(headings, table.columns(), strict=True)):
        theirs, is_other = heading.theirs, heading.is_guessed and heading.column.startswith(OTHER)
        summaries = [number for number, line in table.lines if _SUMMARY.fullmatch(line[place])]
        # `sum` and `mean` alone are settings.
        may_sum_up = place == 0 or all(cell.isdecimal() or _SUMMARY.fullmatch(cell) for cell in cells)
        may_sum_up &= heading.is_guessed and heading.column not in MEASURED and len(summaries) < len(cells)
        if summaries and (heading.may_number or may_sum_up):
            setting = heading.column if heading.column in NAMES else "+"
            hint = f"leave summary lines out; --column '{theirs}={setting}' where it is a setting"
            raise UserError(f"{theirs}: a summary of other lines is no run", where=table.where(summaries[0]), hint=hint)
        for (number, _), cell, end in zip(table.lines, cells, ends, strict=True):
            is_end = heading.is_failure and cell.lower() not in _NO
            if is_end and status_of(end) in (None, Status.COMPLETED):
                hint = f"a column `status` of {', '.join(Status)} says so; {_ways(theirs)}"
                raise UserError(f"{theirs} is {shown(cell)}: did the run fail?", where=table.where(number), hint=hint)
        steps = [cell for cell in cells if "." in cell and cell.partition(".")[0] in cells]
        if steps and re.match("job.?id", theirs, re.IGNORECASE):
            message = f"{theirs} {steps[0]} is a step of a job of the table"
            where = table.where(table.lines[cells.index(steps[0])][0])
            raise UserError(message, where=where, hint="keep a line of each job, as sacct -X does")
        is_unnamed = heading.is_guessed and re.fullmatch(r"(unnamed\W*\d*)?", theirs, re.IGNORECASE)
        if is_unnamed and any(cells) and not _numbers_lines(cells):
            hint = f"name it in the first line; --column '{theirs}=' leaves it out"
            raise UserError(f"a column of {shown(cells[0])} has no name", where=table.where(), hint=hint)
        # A line of a log has no state.
        if is_other and STATUS not in columns and (unit := _OF_A_LOG.fullmatch(theirs)) and len({*cells}) > 1:
            ways = _ways(theirs, "epochs" if theirs.lower() == "epoch" else "+")
            hint = f"keep the last line of each run; where each line is one: {ways}"
            raise UserError(f"{theirs}: a line for each {unit[1].lower()}?", where=table.where(), hint=hint)
        is_count = is_other and re.search(_COUNTS, theirs, re.IGNORECASE)
        is_line_number = theirs == "#" and _numbers_lines(cells)
        is_amount = heading.is_guessed and _AMOUNT.fullmatch(theirs) and all(map(str.isdecimal, cells))
        is_grid = all(map(_GRID.fullmatch, cells)) and not all(map(_SQUARE.fullmatch, cells))
        is_grid &= not _OF_SIZE.search(theirs)
        is_device = heading.column == "device_name" and heading.is_guessed
        # Of another column `4 blocks` are a setting, and `ViT B16 (224)` is a size.
        matches = [of for of in map(_COUNT_OF.fullmatch, cells) if of and (is_device or re.match(r"[A-Z].*\d", of[2]))]
        counts = by_key((of[2], (of[1], of[3] if is_device else "")) for of in matches).values()
        in_words = is_grid or any(map(_COUNTED.search, cells)) or any(len({*each}) > 1 for each in counts)
        in_words |= is_device and any(of[1] for of in matches)
        in_words &= is_other or is_device
        if not has_workers and (is_count or in_words or (is_amount and not is_line_number)):
            ours = "workers_per_host" if re.search(r"\bper\b|/", theirs) else "workers"
            way = f"--column '{theirs}={ours}'"
            if re.match(_HOSTS, theirs, re.IGNORECASE):
                way = f"--column '{theirs}=hosts' beside a column `workers` or `workers_per_host`"
            way = way if all(map(str.isdecimal, cells)) else "add a column `workers`"
            name = f"; --column '{theirs}=device_name' where it is the name of one device" * is_device
            hint = f"{way}{name}; {_ways(theirs)}"
            hint = _ONE_LINE if heading.unit in (_TIME, _RATE) or theirs[:1].isdigit() else hint
            raise UserError(f"{theirs}: are these the workers?", where=table.where(), hint=hint)


def _numbers_lines(cells: Sequence[str]) -> bool:
    return any([*cells] == [str(number + start) for number in range(len(cells))] for start in (0, 1))


def _ways(theirs: str, ours: str = "+") -> str:
    return f"--column '{theirs}={ours}' where it is a setting; --column '{theirs}=' leaves it out"


def _refuse_doubtful(headings: Sequence[Heading], table: Table) -> None:
    """Refuse what is left out where lines differ in it alone: they would be repeats, and it may be a setting.

    Decimals of three digits or more, of which most lines have another, are measured; times only in several arms.
    """
    apart = [
        place
        for place, each in enumerate(headings)
        if each.column not in ("", *MEASURED, STATUS) and not each.may_number
    ]
    for place, (heading, cells) in enumerate(zip(headings, table.columns(), strict=True)):
        measured = {cell for cell in cells if "." in cell and len(re.sub(r"\D", "", cell).strip("0")) > 2}
        if heading.column or not heading.is_doubtful or _numbers_lines(cells):
            continue
        arms = by_key((tuple(line[each] for each in apart), line[place]) for _, line in table.lines).values()
        several = [values for arm in arms if len(values := sorted({*arm} - {"", "-"})) > 1]
        is_time = heading.unit == _TIME or _OF_TIME.search(heading.theirs)
        are_measured = len(measured) > len(cells) / 2 and (not is_time or len(several) > 1)
        if several and not are_measured:
            message = f"{heading.theirs} is {several[0][0]} and {several[0][1]} on lines of the same settings"
            raise UserError(f"{message}: a setting, or measured?", where=table.where(), hint=_ways(heading.theirs))


def _refuse_settings(headings: Sequence[Heading], table: Table) -> None:
    """Refuse what would tell arms apart and is no setting: times, and batches that a step accumulates."""
    columns, where = {each.column for each in headings}, table.where()
    step = next((each for each in headings if each.column == STEP_TIME), None)
    has_all, has_rate = "batch_size_global" in columns, columns & {RATE.column, WORKER_RATE}
    is_timed = any(MEASURED.get(each) in (_TIME, _RATE) for each in columns)
    # A `time per batch` may be that of a part of the batch of a step.
    is_open = step and not has_rate and (not has_all or (step.is_guessed and "batch" in step.theirs.lower()))
    for heading, cells in zip(headings, table.columns(), strict=True):
        theirs, filled = heading.theirs, {*cells} - {"", "-"}
        is_only_time = not is_timed and not heading.is_of_means and _PER_EPOCH.search(theirs) is not None
        may_be_setting = heading.column.startswith((OTHER, "precision")) or (is_only_time and not heading.column)
        if not heading.is_guessed or not may_be_setting:
            continue
        is_clock = _OF_TIME.search(theirs) or any(cell.count(":") > 1 for cell in filled)
        if is_clock and filled and all(map(_CLOCK.fullmatch, filled)):
            hint = f"write a time as one number: 5400 for 1:30:00; {_ways(theirs)}"
            raise UserError(f"{theirs} holds times such as {min(filled)}", where=where, hint=hint)
        if heading.unit == _RATE or (_OF_RATE.search(theirs) and not _CHOSEN.search(theirs)):
            raise UserError(f"{theirs} is a rate, and no setting", where=where, hint=f"{_ONE_LINE}; {_ways(theirs)}")
        is_precision = _PRECISION.fullmatch(theirs) and re.search(r"%|\.\d*[1-46-9]", str(filled))
        is_score = is_precision or (_OF_SCORE.match(theirs) and not _is_time(heading, cells))
        if is_score and filled and all(re.fullmatch(r"[-+\d.]+ ?%?", cell) for cell in filled):
            hint = f"call the one that decides `accuracy` or `loss`; {_ways(theirs)}"
            raise UserError(f"{theirs}: a score, or a setting?", where=where, hint=hint)
        if not is_timed and _is_time(heading, cells):
            if not _PER_EPOCH.search(theirs):
                factor, unit = ("", "") if heading.unit else ("*60", ", in minutes")
                way = f"--column '{theirs}={TRAIN_TIME.column}{factor}' where it is how long a run took{unit}"
            elif heading.unit == _TIME and "epochs" not in columns:  # one factor serves all lines
                way = f"--column '{theirs}={TRAIN_TIME.column}*{90 * heading.factor}' where runs have 90 epochs"
            else:
                way = "add a column `training time`, of all epochs"
            hint = f"{way}; {_ways(theirs)}"
            raise UserError(f"{theirs} is a time, and no setting", where=where, hint=hint)
        is_of_several = not has_all and _MODEL_PARALLEL.search(theirs)
        is_of_several = is_of_several or ACCUMULATED.search(theirs)
        if step and is_open and is_of_several and {*map(str.lower, filled)} - {"1", "1.0", *_NO}:
            hint = "add a column `global batch`: all that a step of all workers takes"
            hint = f"--column '{step.theirs}={STEP_TIME}' where it is the time of all of it" if has_all else hint
            message = f"{theirs}: does the {'time' if has_all else 'batch'} hold all of a step of each worker?"
            raise UserError(message, where=where, hint=hint)


def _is_time(heading: Heading, cells: Sequence[str]) -> bool:
    """Whether a column of numbers is a time by its heading."""
    is_time = heading.unit == _TIME or _OF_TIME.search(heading.theirs)
    is_other = heading.is_guessed and not _CHOSEN.search(heading.theirs)
    # `GlobalBatchSize (S)` is of sequences.
    is_other &= not re.search(r"size ?\(s\)$", heading.theirs, re.IGNORECASE)
    return bool(is_other and is_time and all(re.fullmatch(r"[\d.,]+", cell) for cell in {*cells} - {*NOTHING}))


def _missing(headings: Sequence[Heading]) -> str:
    if len(headings) == 1:
        return "separate columns by commas or tabs, and delete titles above their names"
    like = r"(?<![a-z])(?:time|throughput|speed(?!up)|(?<!learning.)rate|acc(?!el)|loss)|(?<!flop)/s|second"
    near = {each: each.unit or "".join(re.findall(like, each.theirs, re.IGNORECASE)[:1]).lower() for each in headings}
    kinds = [kind for each, kind in near.items() if kind and each.column.startswith(OTHER)]
    header = [re.sub(r"\d+", "", each.theirs).rstrip("s") for each in headings]
    if len({*header}) < len(header) or len({*kinds}) < len(kinds):
        return _ONE_LINE
    ours = ", ".join(f"{name} ({MEASURED[name] or 'a loss'})" for name in NAMES if name in MEASURED)
    # `Time to objective (h)` rather than `Waiting time (%)`.
    ranked = sorted(filter(near.get, near), key=lambda each: each.unit not in (_TIME, _RATE))
    nearest_one = next((each.theirs for each in ranked), "")
    start = f"the nearest is {nearest_one}; name one" if nearest_one else "name one"
    end = f"; or {_ONE_LINE}" * (sum(each.column.startswith(OTHER) for each in headings) > 1)
    return f"{start}: --column THEIRS=OURS or THEIRS=OURS*1000; OURS, with samples of all workers, is of {ours}{end}"


def _guessed(theirs: str, *, has_least: bool) -> Heading:
    """Return what a heading says in its own words; `min` at its end is the least where `has_least`, else minutes."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", theirs).lower()
    # `GPU(s)`, `# of node's`; not `time(s)`, `time per GPU(s)`.
    text = re.sub(rf"^((#|num(ber)?|no\.?)?( ?of)? ?({_SINGULAR}))(\(s\)|['\u2019]s)$", r"\1s", text)
    # `params.lr` and `val/accuracy` of trackers are no quotients; `train/s` is.
    text = re.sub(r"^(params?|metrics?|config|summary|hparams)[./]", "", text)
    text = re.sub(r"^(train(ing)?|val(id(ation)?)?|eval(uation)?|test)[./](?!s(ec)?\b)", r"\1 ", text)
    text = re.sub(r"^min(?=[ _])|(?<=[ _])min(?= ?[(\[])" + r"|(?<=[ _])m(in)?$" * has_least, "minimum", text)
    # `Time / h` is in hours.
    text = re.sub(r"(?<![a-z])(time|t|runtime|duration) ?/ ?(?=(d|h|min|ms|s)$)", r"\1 ", text)
    text = re.sub("[$\u20ac\u00a3]", " price ", text)
    for sign, word in {"+/-": " std ", "\u00b1": " std ", "/": " per ", "%": " percent ", "#": " num "}.items():
        text = text.replace(sign, word)
    text = "".join(_MEANS.get(word, word) for word in re.findall(r"[^\W_]+", text))
    text = text.replace("perbatch", "perstep")
    scopes = [scope for scope in ("perstep", "perworker") if scope in text]
    name = re.sub("perstep|perworker|global", "", text)
    # `min` alone is hardly a time; `time to 93%` is none in percent.
    has_unit = len(theirs) > 3 and not re.fullmatch(r"timeto\d+percent", name)
    unit = next((unit for unit in _UNITS if has_unit and name.endswith(unit)), "")
    kind, factor_text, noun = _UNITS.get(unit, ("", "1", ""))
    numerator, _, denominator = factor_text.partition("/")
    factor = Decimal(numerator) / Decimal(denominator or 1)
    name = "global" * ("global" in text) + name.removesuffix(unit) + noun + "".join(scopes)
    column = next((ours for ours, pattern in NAMES.items() if re.fullmatch(pattern, name)), "")
    if column and kind in ("", MEASURED.get(column, "")):
        is_by_unit = column in MEASURED and column != RATE.column
        counts = kind if is_by_unit else re.search("perworker|local|global|effective|world|np", name)
        return Heading(theirs, column, kind, factor, is_bare=not counts)
    # `Throughput (widgets/s)`: of what is not known; `$/h` is no time.
    kind = "" if unit == "persecond" or "pertime" in name else kind
    is_doubtful, is_of_means = bool(_DOUBTFUL.fullmatch(name)), bool(":" not in theirs and _OF_MEANS.fullmatch(text))
    is_score = bool(_SCORE.fullmatch(name)) and not is_doubtful
    if is_sure := is_score or (bool(_NO_SETTING.fullmatch(name)) and not is_doubtful):
        is_of_means = False
    if is_sure or is_of_means or is_doubtful:
        heading = Heading(theirs, "", kind, factor, is_of_means=is_of_means, is_doubtful=is_doubtful)
        may_number, is_failure = bool(_NUMBERS.fullmatch(name)), bool(re.fullmatch(_FAILURE, name))
        return replace(heading, may_number=may_number, is_failure=is_failure, is_score=is_score)
    return Heading(theirs, _other(theirs), kind, factor)


def _other(theirs: str) -> str:
    return OTHER + (re.sub(r"\W+", "_", theirs).strip("_").lower() or "column")


def _named(guess: Heading, ours: str) -> Heading:
    """Return what the user says of a column: empty leaves it out, `+` tells arms apart, `NAME*60` or `NAME/100`.

    Where the user names no factor, that of the heading's unit holds.

    Raises:
        UserError: There is no such name, or the heading has another unit, or one that is not known.
    """
    by_factor = re.fullmatch(r"(\w+)([*/])(?=.*[1-9])(\d+\.?\d*)", ours)
    column = by_factor[1] if by_factor else ours
    if column in ("", "+"):
        return Heading(guess.theirs, _other(guess.theirs) if column else "", is_guessed=False)
    if column not in NAMES:
        hint = nearest(column, NAMES) or f"there are: {', '.join(NAMES)}, each also as NAME*3600 or NAME/100"
        raise UserError(f"--column {guess.theirs}={ours}: there is no column {shown(column)}", hint=hint)
    if _SPECIAL.get(guess.column) == ours:
        return guess
    unit = MEASURED.get(column)
    factor = guess.factor if guess.unit and guess.unit == unit else Decimal(1)
    is_open = guess.unit not in ("", unit) or (not guess.unit and re.search(r"[/([]|\bper\b", guess.theirs))
    if unit and is_open and not by_factor and guess.column != column:
        hint = f"say by what it is multiplied: --column '{guess.theirs}={column}*1' where by nothing"
        raise UserError(f"{guess.theirs} may not be in {unit}", hint=hint)
    if by_factor:
        factor = Decimal(by_factor[3]) if by_factor[2] == "*" else 1 / Decimal(by_factor[3])
    return Heading(guess.theirs, column, factor=factor, is_guessed=False)
