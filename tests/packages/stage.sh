# stage.sh - sourced by the tests of this folder, after tests/shell.sh: the staged files, in $stage,
# for this suite alone, and $version.  Only a release build is packed.
#
# `make package` tests its own output, in the folder PACKAGES: it is built again only to compare.
O=${O:-build/release}
export O
if [ "${BUILD:-release}" != release ] || [ ! -x "$O/cerium" ]; then
    skip "packages" "only a release build is packed"
    report packages
    exit
fi
version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
stage=$work/stage
check "the files of every package are staged" packages/stage.sh "$stage"
