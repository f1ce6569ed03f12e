"""Index folders: the passages of a corpus file and their lexical index, made once.

    python -m agentgym.searchqa.retrieval.index_folder wiki-18.jsonl.gz indexes/wiki-18

The complete folder appears in one move. An interrupted build stays in `<folder>.building` and is resumed;
`<folder>.lock` excludes other processes. A folder belongs to one state of one file and one format version.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.outside.files import fingerprint, locked, write_file
from agentgym.outside.text import DataError
from agentgym.searchqa.official import PassageReader, check_some, corpus_state, same_id
from agentgym.searchqa.retrieval import lexical

#: Increase it when the files in a folder or the indexed fields change.
VERSION = 1
_HEAD = "index.json"
#: Passages between two checkpoints of a build.
_STRETCH = 100_000

#: Called with the number of passages done and the share of the corpus file read.
Progress = Callable[[int, float], None]


def build_index(
    corpus: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    progress: Progress = lambda done, share: None,
    stretch: int = _STRETCH,
) -> Path:
    """Make the index folder of a corpus file (see `PassageReader`), unless it exists, and return it.

    `progress` is called after every `stretch` passages, which are also the checkpoints. Raises a DataError if the
    folder is something else or the index of another corpus, or the corpus cannot be read.
    """
    lexical.load_tantivy()
    corpus, folder = Path(corpus).expanduser(), Path(folder).expanduser()
    head = {"version": VERSION, "corpus": corpus_state(corpus)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock")):
        if folder.exists():
            found = _read_head(folder)
            if found["corpus"] != head["corpus"]:
                raise DataError(
                    f"{folder} is the index of {found['corpus']['name']} in another state than {corpus} is in now; "
                    "name another folder, or remove it"
                )
            return folder
        unfinished = folder.with_name(folder.name + ".building")
        _build(corpus, unfinished, head, progress, stretch)
        os.rename(unfinished, folder)
    return folder


def open_index(folder: str | os.PathLike[str], *, threads: int | None = None) -> lexical.LexicalRetriever:
    """Return the retriever of an index folder; DataError for another version or damage."""
    folder = Path(folder).expanduser()
    head = _read_head(folder)
    try:
        retriever = lexical.LexicalRetriever.from_folder(folder, threads)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is damaged ({error}); remove it and build it again") from error
    if len(retriever.passages) != head["passages"]:
        raise DataError(
            f"{folder} is damaged: {len(retriever.passages)} passages, expected {head['passages']}; "
            "remove it and build it again"
        )
    return retriever


def default_folder(corpus: Path, cache: Path) -> Path:
    """Return the index folder of a corpus file, in its present state, within a cache folder."""
    return cache / f"searchqa-{corpus.name.partition('.')[0]}-{fingerprint(VERSION, corpus)}"


def _read_head(folder: Path) -> dict[str, Any]:
    what = "expected an index folder, made by `python -m agentgym.searchqa.retrieval.index_folder CORPUS FOLDER`"
    try:
        head: Any = json.loads((folder / _HEAD).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder / _HEAD} cannot be read ({error}); {what}") from error
    if not isinstance(head, dict) or not {"version", "corpus", "passages"} <= set(head):
        raise DataError(f"{folder / _HEAD} is something else; {what}")
    if head["version"] != VERSION:
        raise DataError(
            f"{folder} has version {head['version']} of the format, this program reads {VERSION}; build it again"
        )
    return head


def _build(corpus: Path, unfinished: Path, head: dict[str, Any], progress: Progress, stretch: int) -> None:
    started = unfinished / "started.json"
    if _started(started) != head:
        names = sorted(path.name for path in unfinished.iterdir()) if unfinished.is_dir() else []
        if foreign := [name for name in names if name not in (lexical.INDEX, started.name, *lexical.PASSAGE_FILES)]:
            raise DataError(f"{unfinished} holds {foreign[0]!r}, which belongs to no index: name another folder")
        shutil.rmtree(unfinished, ignore_errors=True)
        (unfinished / lexical.INDEX).mkdir(parents=True)
        write_json(started, head)
    index = lexical.new_index(unfinished / lexical.INDEX)
    # One thread adds passages in order, so an index always holds a beginning of the corpus.
    writer = index.writer(heap_size=lexical.HEAP, num_threads=1)
    index.reload()
    done = index.searcher().num_docs
    passages = lexical.PassageWriter(unfinished, keep=done)
    reader = PassageReader(corpus, start=done)
    try:
        for passage in reader:
            passages.append(passage)
            writer.add_document(lexical.document(done, passage))
            done += 1
            if done % stretch == 0:
                passages.flush()
                writer.commit()
                progress(done, reader.fraction)
        passages.flush()
        writer.commit()
        writer.wait_merging_threads()
    finally:
        passages.close()
        # Deleting the writer releases Tantivy's lock, also while an exception holds this frame.
        del writer
    check_some(done, str(corpus))
    _check_ids(lexical.PassageFile(unfinished), corpus)
    # Tantivy makes some files private; all files get the permissions of the passages.
    mode = (unfinished / started.name).stat().st_mode
    for path in (unfinished / lexical.INDEX).iterdir():
        path.chmod(mode)
    progress(done, 1.0)
    write_json(unfinished / _HEAD, head | {"passages": done})
    started.unlink()


def _started(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _check_ids(passages: lexical.PassageFile, corpus: Path) -> None:
    """Raise a DataError for equal ids, with eight bytes of memory per passage."""
    hashes = np.fromiter((hash(passage.id) for passage in passages), np.int64, len(passages))
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    positions: dict[str, int] = {}
    for position in np.flatnonzero(np.isin(hashes, twice)).tolist():
        name = passages[position].id
        if positions.setdefault(name, position) != position:
            first, second = PassageReader(corpus).lines([positions[name], position])
            raise same_id(f"{corpus}: lines {first} and {second}", name)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file atomically."""
    write_file(path, (json.dumps(content, indent=1) + "\n").encode())


def print_progress() -> Progress:
    """Return a function that prints progress to standard error."""
    began = time.monotonic()

    def show(done: int, share: float) -> None:
        seconds = max(time.monotonic() - began, 1e-9)
        print(f"{done:,} passages, {share:.0%} of the file, {seconds:.0f} s", file=sys.stderr)

    return show


def run_command(arguments: list[str] | None, usage: str, counts: Collection[int], work: Callable[..., object]) -> int:
    """Run `work` with a command's arguments (`counts` allowed numbers of them); return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) not in counts or given[0].startswith("-"):
        print(f"usage: python -m agentgym.searchqa.retrieval.{usage}", file=sys.stderr)
        return 2
    try:
        work(*given, progress=print_progress())
    except (ValueError, OSError, ImportError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        return 130
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    return run_command(arguments, "index_folder CORPUS FOLDER", (2,), build_index)


if __name__ == "__main__":
    sys.exit(main())
