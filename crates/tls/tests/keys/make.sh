#!/usr/bin/env bash
# Makes the keys and certificates that tests use, for a hundred years; they protect nothing. Run it only to have others.
set -euo pipefail
cd "$(dirname "$0")"

new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

new_ca() {
    new_key "$1"
    openssl req -new -x509 -key "$1.key" -subj "/CN=$1" -days 36500 -addext basicConstraints=critical,CA:TRUE -out "$1.pem"
}

# signed NAME CA EXTENSIONS [days, which may be negative]
signed() {
    new_key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -days "${4:-36500}" -extfile <(printf '%b' "$3") -out "$1.pem"
    rm "$1.csr"
}

new_ca ca
new_ca other-ca
signed switch ca 'basicConstraints=CA:FALSE\n'
signed controller ca 'basicConstraints=CA:FALSE\n'
signed stranger other-ca 'basicConstraints=CA:FALSE\n'
signed mail ca 'basicConstraints=CA:FALSE\nextendedKeyUsage=emailProtection\n'
signed expired ca 'basicConstraints=CA:FALSE\n' -1
openssl pkey -in switch.key -aes256 -passout pass:weir -out locked.key
rm -f ca.key other-ca.key
