"""Names the extra of minikafka whose packages are missing, in the error of an import."""


def missing_extra(error: ModuleNotFoundError, extra: str, what: str) -> ModuleNotFoundError:
    """The error to raise instead of one of an import: what needs the package, and the command that installs it.

    A module of minikafka's own that is missing is a bug: the error is returned as it is.
    """
    package = (error.name or "").partition(".")[0]
    if not package or package == "minikafka":
        return error
    text = f"{what} needs the package {package}, which is missing: pip install 'minikafka[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)
