"""`missing_extra`: the error for a failed import of an optional package; it names the extra of minikafka to install."""


def missing_extra(error: ModuleNotFoundError, extra: str, what: str) -> ModuleNotFoundError:
    """The error to raise in place of an import error: it names what needs the package, and the command to install it.

    If the missing module is minikafka's own, which is a bug, `error` is returned unchanged.
    """
    package = (error.name or "").partition(".")[0]
    if not package or package == "minikafka":
        return error
    text = f"{what} needs the package {package}, which is missing: pip install 'minikafka[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)
