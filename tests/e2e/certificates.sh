# Certificates and kubeconfigs in $dir: one CA for servers and clients, one for the front proxy. $kube is the URL of the API.
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$dir/$1.key" 2>/dev/null; }
ca() { # NAME
    key "$1"
    openssl req -x509 -new -key "$dir/$1.key" -subj "/CN=$1" -days 2 -out "$dir/$1.crt" 2>/dev/null
}
cert() { # NAME CA SUBJECT [ALT-NAMES]
    key "$1"
    openssl req -new -key "$dir/$1.key" -subj "$3" -out "$dir/$1.csr" 2>/dev/null
    printf 'extendedKeyUsage=serverAuth,clientAuth\n%s\n' "${4:+subjectAltName=$4}" >"$dir/$1.ext"
    openssl x509 -req -in "$dir/$1.csr" -CA "$dir/$2.crt" -CAkey "$dir/$2.key" -set_serial "0x$(openssl rand -hex 8)" -days 2 -extfile "$dir/$1.ext" -out "$dir/$1.crt" 2>/dev/null
}
kubeconfig() { # NAME SUBJECT: a client's
    cert "$1" ca "$2"
    cat >"$dir/$1.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: $kube, certificate-authority: $dir/ca.crt}}]
users: [{name: me, user: {client-certificate: $dir/$1.crt, client-key: $dir/$1.key}}]
contexts: [{name: e2e, context: {cluster: e2e, user: me}}]
current-context: e2e
EOF
}
