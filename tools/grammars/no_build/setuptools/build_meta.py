"""build_meta.py - a build backend that builds nothing.

pip asks a package's backend for its name and version before it stores a source distribution.
Both are already in PKG-INFO, so no code of the package is run, and setuptools is not needed.
"""

import os
import shutil


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    facts = {}
    with open("PKG-INFO", encoding="utf-8") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                break
            facts.setdefault(name, value.strip())
    name = f"{facts['Name'].replace('-', '_')}-{facts['Version']}.dist-info"
    folder = os.path.join(metadata_directory, name)
    os.makedirs(folder, exist_ok=True)
    shutil.copy("PKG-INFO", os.path.join(folder, "METADATA"))
    return name
