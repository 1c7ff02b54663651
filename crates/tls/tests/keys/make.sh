#!/usr/bin/env bash
# Makes the keys and certificates that tests use, valid from 2020 for a hundred years whatever the clock says; they protect nothing. Run it only to
# have others.
set -euo pipefail
cd "$(dirname "$0")"

first=20200101000000Z last=21200101000000Z
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/index.txt"
printf '[ca]\ndefault_ca = ours\n[ours]\ndatabase = %s/index.txt\nnew_certs_dir = %s\nrand_serial = yes\ndefault_md = sha256\nunique_subject = no\npolicy = any\n[any]\ncommonName = supplied\n' \
    "$work" "$work" >"$work/ca.conf"

new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

# sign NAME EXTENSIONS LAST SIGNER-OPTION...
sign() {
    local name=$1 extensions=$2 until=$3
    shift 3
    new_key "$name"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out "$work/$name.csr"
    openssl ca -batch -notext -config "$work/ca.conf" -in "$work/$name.csr" -startdate "$first" -enddate "$until" \
        -extfile <(printf '%b' "$extensions") -out "$name.pem" "$@" 2>/dev/null
}

new_ca() { sign "$1" 'basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash\n' "$last" -selfsign -keyfile "$1.key"; }

# signed NAME CA EXTENSIONS [LAST]
signed() { sign "$1" "$3" "${4:-$last}" -cert "$2.pem" -keyfile "$2.key"; }

new_ca ca
new_ca other-ca
signed switch ca 'basicConstraints=CA:FALSE\n'
signed controller ca 'basicConstraints=CA:FALSE\n'
signed stranger other-ca 'basicConstraints=CA:FALSE\n'
signed mail ca 'basicConstraints=CA:FALSE\nextendedKeyUsage=emailProtection\n'
signed expired ca 'basicConstraints=CA:FALSE\n' 20210101000000Z
openssl pkey -in switch.key -aes256 -passout pass:weir -out locked.key
rm -f ca.key other-ca.key
