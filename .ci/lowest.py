"""Print the lowest versions that pyproject.toml allows, as pip wants them."""

import pathlib
import re
import tomllib

EXTRAS = ("plots", "sparse", "estimators", "optimistix", "cli")

project = tomllib.loads((pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text())[
    "project"
]
wanted = list(project["dependencies"])
for extra in EXTRAS:
    wanted += project["optional-dependencies"][extra]
for requirement in wanted:
    if not requirement.startswith("lemmax["):
        print(re.sub(">=", "==", requirement))
