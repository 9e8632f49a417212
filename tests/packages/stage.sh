# stage.sh - sourced by the tests of this folder, after tests/shell.sh: what is staged, in $stage,
# which no other suite has, and $version.  Only a release build is packed.
#
# `make package` tests what it made, in the folder PACKAGES: it is made again only to compare.
O=${O:-build/release}
export O
if [ "${BUILD:-release}" != release ] || [ ! -x "$O/cerium" ]; then
    skip "packages" "only a release build is packed"
    report packages
    exit
fi
version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
stage=$work/stage
check "what every package has is staged" packages/stage.sh "$stage"
