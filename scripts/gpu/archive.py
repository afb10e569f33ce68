"""Keeps the logs of all checks: a few archives of limited size, the most telling first."""

import gzip
import io
import os
import shutil
import tarfile

# Kinds of files of a run that are kept. A larger one is kept from its end only; a larger compressed one, not at all.
KEPT = {".log", ".toml", ".jsonl", ".json", ".txt", ".gz"}
MOST_BYTES_OF_FILE = 2 << 20
MOST_BYTES_OF_CHECK = 6 << 20  # compressed
MOST_BYTES_OF_ARCHIVE = 15 << 20
MOST_ARCHIVES = 3
FIRST = ("failure.txt", "report.jsonl", "output.log")
END_OF_TAR = gzip.compress(bytes(1024))


def is_kept(file):
    if file.suffix not in KEPT or not file.is_file() or file.is_symlink():
        return False
    return file.suffix != ".gz" or file.stat().st_size <= MOST_BYTES_OF_FILE


def end_of(file):
    with open(file, "rb") as stream:
        stream.seek(max(0, file.stat().st_size - MOST_BYTES_OF_FILE))
        return stream.read(MOST_BYTES_OF_FILE)


def packed(root, files):
    """Compressed members of a tar without its end: several of these behind each other are an archive."""
    buffer = io.BytesIO()
    tar = tarfile.open(fileobj=buffer, mode="w")
    for file in files:
        try:
            content = end_of(file)
        except OSError as error:
            content = f"not kept: {error}\n".encode()
        member = tarfile.TarInfo(str(file.relative_to(root)))
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue())


def write_file(path, content):
    """All of it or nothing, whenever this process is ended."""
    new = path.with_name("." + path.name)
    new.write_bytes(content)
    os.replace(new, path)


class Archives:
    def __init__(self):
        self.pieces = []  # (rank, bytes)

    def take(self, folder, failed):
        """Takes up the logs below the folder of a check, which is then deleted."""
        found = [file for file in folder.rglob("*") if is_kept(file)]
        first = [folder / name for name in FIRST if folder / name in found]
        others = sorted(set(found) - set(first), key=lambda file: (file.stat().st_size, file))
        self.pieces.append((0 if failed else 1, packed(folder.parent, first)))
        while len(piece := packed(folder.parent, others)) > MOST_BYTES_OF_CHECK:
            others = others[: len(others) // 2]
        if others:
            self.pieces.append((2 if failed else 3, piece))
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, out):
        """logs.tar.gz, and logs-2.tar.gz and so on where that is full; what does not fit is left out."""
        archives = [b""]
        for _, piece in sorted(self.pieces, key=lambda ranked: ranked[0]):
            if len(archives[-1]) + len(piece) + len(END_OF_TAR) > MOST_BYTES_OF_ARCHIVE:
                if len(archives) == MOST_ARCHIVES:
                    break
                archives.append(b"")
            archives[-1] += piece
        for number, archive in enumerate(archives, 1):
            write_file(out / ("logs.tar.gz" if number == 1 else f"logs-{number}.tar.gz"), archive + END_OF_TAR)
