"""make_vsix.py - zip an extension: make_vsix.py FOLDER NODE_MODULES OUT.vsix

The same files give the same bytes."""

import json
import os
import sys
import zipfile
from xml.sax.saxutils import escape

folder, modules, out = sys.argv[1:]
with open(os.path.join(folder, "package.json")) as f:
    package = json.load(f)

MANIFEST = f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="{package['name']}" Version="{package['version']}"
      Publisher="{package['publisher']}"/>
    <DisplayName>{escape(package['displayName'])}</DisplayName>
    <Description xml:space="preserve">{escape(package['description'])}</Description>
    <Categories>{escape(','.join(package['categories']))}</Categories>
    <Icon>extension/icon.png</Icon>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="{package['engines']['vscode']}"/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"
      Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Icons.Default" Path="extension/icon.png"
      Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md"
      Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def is_wanted(path):
    """The code, and licenses."""
    name = os.path.basename(path)
    if "/lib/browser/" in path or "/lib/esm/" in path or "/typings/" in path:
        return False
    if name.lower().startswith(("license", "thirdparty", "copying")):
        return True
    return name == "package.json" or name.endswith((".js", ".cjs"))


def files():
    for name in sorted(os.listdir(folder)):
        yield os.path.join(folder, name), f"extension/{name}"
    yield "LICENSE", "extension/LICENSE"
    for at, folders, names in os.walk(modules):
        folders[:] = sorted(d for d in folders if d not in (".bin", "test", "tests", "bin"))
        for name in sorted(names):
            path = os.path.join(at, name)
            inside = os.path.relpath(path, modules)
            if is_wanted("/" + inside):
                yield path, f"extension/node_modules/{inside}"


listed = list(files())
endings = sorted({os.path.splitext(name)[1] for _, name in listed if os.path.splitext(name)[1]})
kinds = {".json": "application/json", ".js": "application/javascript", ".png": "image/png",
         ".md": "text/markdown", ".txt": "text/plain", ".cjs": "application/javascript"}
types = "".join(f'<Default Extension="{e}" ContentType="{kinds.get(e, "text/plain")}"/>'
                for e in endings + [".vsixmanifest"])
types += "".join(f'<Override PartName="/{name}" ContentType="text/plain"/>' for _, name in listed
                 if not os.path.splitext(name)[1])
types = ('<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns='
         f'"http://schemas.openxmlformats.org/package/2006/content-types">{types}</Types>\n')

with zipfile.ZipFile(out + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
    def add(name, data):
        z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)
    add("[Content_Types].xml", types)
    add("extension.vsixmanifest", MANIFEST)
    for path, name in listed:
        with open(path, "rb") as f:
            add(name, f.read())
os.replace(out + ".new", out)
print(f"{out}: {os.path.getsize(out)} bytes, {len(listed)} files")
