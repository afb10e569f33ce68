"""What depends on the speed of a busy machine may be tried again; bits never are. scripts/test counts the retries."""
import os


def note_retry(what):
    """Reports a retry: a line on stdout, and a line in the file named by ESTRAIN_RETRIES."""
    print(f"tried again: {what}", flush=True)
    if "ESTRAIN_RETRIES" in os.environ:
        with open(os.environ["ESTRAIN_RETRIES"], "a") as file:
            file.write(what + "\n")
