"""The releases in the order they came out. They tell the paths that users can take, and those that a backport took from them.

Versions say where a release stands in the chain, the order says who could know whom. ``1.0.0, 1.1.0, 1.0.1``: the backport 1.0.1 stands
between the two and came out after both, so the folder of 1.1.0, as its users have it, leads there from 1.0.0 and not from 1.0.1.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core.names import InvalidName, Version
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.release.folder.errors import RELEASE_TOML
from airflow_provider_schemamig.core.release.folder.lock import module_file, snapshot_file
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import merge
from airflow_provider_schemamig.core.testing.errors import BackportBreaksPath, InvalidReleased, ReleasedFileChanged, ReleaseForgotten
from airflow_provider_schemamig.core.testing.results import PathKind, UpgradePath
from airflow_provider_schemamig.core.testing.workspace import cut
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

_GIT_SECONDS = 60


@dataclass(frozen=True)
class Point:
    """One release. ``release``: its folder as it came out; None if that is not to be had here (above the head, or not in the folder)."""

    version: Version
    release: Release | None

    def knows(self, version: Version) -> bool:
        return self.release is not None and version in self.release.snapshots


@dataclass(frozen=True)
class Released:
    """All releases, oldest first by the day they came out; the folder under test is the last, unless it came out already."""

    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()

    def of(self, version: Version) -> Point:
        return next(point for point in self.points if point.version == version)

    def before(self, version: Version) -> Version | None:
        """Return the release that ``version``'s own chain comes from; None for the oldest that anybody may still be at."""
        release, out = self.of(version).release, {point.version for point in self.points}
        older = [known for known in release.versions if known < version and known in out] if release is not None else []
        return older[-1] if older else None


def known_paths(released: Released) -> tuple[UpgradePath, ...]:
    """Return every upgrade from one release to a later one whose folder, as it came out, has both."""
    return tuple(
        UpgradePath(PathKind.RELEASED, source.version, target.version)
        for target in released.points
        for source in sorted(released.points, key=lambda point: point.version)
        if source.release is not None and source.version < target.version and target.knows(source.version)
    )


def missing_paths(released: Released) -> tuple[tuple[UpgradePath, Refusal], ...]:
    """Return upgrades that users cannot take, although both releases are out, and why. One that a later patch fixes is not among them."""
    order = {point.version: number for number, point in enumerate(released.points)}
    found: list[tuple[UpgradePath, Refusal]] = []
    for target in released.points:
        for source in released.points:
            if source.version >= target.version or target.knows(source.version):
                continue
            path = UpgradePath(PathKind.RELEASED, source.version, target.version)
            if order[source.version] > order[target.version]:
                if not _is_repaired(released, order, source.version, target.version):
                    steps = _steps(released, source)
                    found.append((path, BackportBreaksPath(backport=source.version, existing=target.version, steps=steps)))
            elif target.release is not None and source.version >= target.release.min_version:
                found.append((path, ReleaseForgotten(released=source.version, target=target.version)))
    return tuple(found)


def _is_repaired(released: Released, order: Mapping[Version, int], source: Version, target: Version) -> bool:
    """Return whether a later patch release of the target's line takes the backport's users past it."""
    line = (target.major, target.minor)
    later = (point for point in released.points if order[point.version] > order[source] or point is released.points[-1])
    return any(point.version > target and (point.version.major, point.version.minor) == line and point.knows(source) for point in later)


def _steps(released: Released, point: Point) -> tuple[str, ...]:
    before = released.before(point.version)
    if point.release is None or before is None:
        return ()
    return tuple(f"{step.kind} {step.collection}" for step in merge(point.release, before).steps)


# --- by a list -----------------------------------------------------------------------------------------------------------------------


def from_list(text: str, release: Release, scratch: Path) -> Released:
    """Read ``text``: versions separated by commas, or a file with one a line, in the order in which they came out. Raises InvalidReleased.

    What a release's folder was is worked out of the folder under test: released files do not change, so it had those of its versions that
    were out by then.
    """
    versions = _versions(text)
    points: list[Point] = []
    notes: list[str] = []
    for number, version in enumerate(versions):
        if version < release.min_version:
            notes.append(f"{version} is below min_version {release.min_version}: nobody is asked to be there any more")
            continue
        if version not in release.snapshots and version > release.version:
            notes.append(f"{version} is above this folder's head, so only its place in the order is known; --tags would show its folder")
        points.append(Point(version, _as_of(release, versions[: number + 1], version, scratch)))
    if release.version not in versions:
        points.append(Point(release.version, release))
    return Released(tuple(points), tuple(notes))


def _versions(text: str) -> list[Version]:
    path = Path(text)
    try:
        words = path.read_text().splitlines() if path.is_file() else text.split(",")
        stripped = [word.partition("#")[0].strip() for word in words]
        found = [Version.parse(word) for word in stripped if word]
    except (InvalidName, OSError, UnicodeDecodeError) as error:
        reason = error.message.rstrip(".") if isinstance(error, InvalidName) else f"{text!r} cannot be read"
        raise InvalidReleased(reason=reason) from error
    twice = [str(version) for version in found if found.count(version) > 1]
    if twice or not found:
        raise InvalidReleased(reason=f"{twice[0]} stands in it twice" if twice else "there is no version in it")
    return found


def _as_of(release: Release, out: Sequence[Version], version: Version, scratch: Path) -> Release | None:
    """Return the folder of ``version`` when ``out`` had been released."""
    if version not in release.snapshots:
        return None
    versions = [known for known in release.versions if known <= version and known in out]
    place = scratch / "released"
    place.mkdir(parents=True, exist_ok=True)
    return load_checked(cut(release, versions, place / str(version)))


# --- by tags -------------------------------------------------------------------------------------------------------------------------


def from_tags(pattern: str, release: Release, scratch: Path) -> Released:
    """Read the folder as it was at each tag that matches, by the date of the tag.

    Raises InvalidReleased, ReleasedFileChanged, and whatever ``check`` refuses of a tag's folder.
    """
    refs = _git(release.path, "for-each-ref", "--sort=creatordate", "--format=%(refname:short)", f"refs/tags/{pattern}")
    prefix = _git(release.path, "rev-parse", "--show-prefix").strip()
    points: list[Point] = []
    changed: dict[str, Refusal] = {}
    for tag in refs.split():
        folder = _extract(release.path, tag, prefix, scratch / "tags" / tag.replace("/", "_"))
        if folder is None:
            continue  # the folder did not exist yet
        found = load_checked(folder)
        if any(point.version == found.version for point in points):
            continue  # several tags of one release: the first one brought it out
        points.append(Point(found.version, found))
        for refusal in _changed_files(release, found, tag):
            changed.setdefault(refusal.file, refusal)
    if not points:
        raise InvalidReleased(reason=f"no tag that matches {pattern!r} has this release folder")
    raise_refusals(list(changed.values()))
    if all(point.version != release.version for point in points):
        points.append(Point(release.version, release))
    return Released(tuple(point for point in points if point.version >= release.min_version))


def _extract(path: Path, tag: str, prefix: str, folder: Path) -> Path | None:
    names = _git(path, "ls-tree", "-r", "--name-only", "-z", tag, "--", ".").split("\0")
    if RELEASE_TOML not in names:
        return None
    for name in filter(None, names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_git_bytes(path, "show", f"{tag}:{prefix}{name}"))
    return folder


def _changed_files(release: Release, tagged: Release, tag: str) -> Iterator[ReleasedFileChanged]:
    for version in tagged.versions:
        files = [snapshot_file(version), *([module_file(version)] if version in tagged.modules else [])]
        for file in files:
            ours, theirs = release.path / file, tagged.path / file
            if ours.is_file() and version >= release.min_version and ours.read_bytes() != theirs.read_bytes():
                is_oldest = version == release.min_version and file != snapshot_file(version)
                if not is_oldest:
                    yield ReleasedFileChanged(file=file, tag=tag)


def _git(path: Path, *arguments: str) -> str:
    return _git_bytes(path, *arguments).decode(errors="replace")


def _git_bytes(path: Path, *arguments: str) -> bytes:
    """Run git. Raises InvalidReleased with git's own first line."""
    try:
        done = subprocess.run(["git", *arguments], cwd=path, capture_output=True, check=True, timeout=_GIT_SECONDS)
    except FileNotFoundError as error:
        raise InvalidReleased(reason="there is no git to ask for tags") from error
    except subprocess.CalledProcessError as error:
        text = error.stderr.decode(errors="replace").strip().splitlines()
        raise InvalidReleased(reason=f"git says: {text[0] if text else 'nothing'}") from error
    except subprocess.TimeoutExpired as error:
        raise InvalidReleased(reason=f"git did not answer in {_GIT_SECONDS} s") from error
    return done.stdout
