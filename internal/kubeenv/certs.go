package kubeenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Certificates are valid from before the start, for clocks that differ, and longer than any test.
const (
	certBefore = time.Hour
	certAfter  = 7 * 24 * time.Hour
)

// authority signs the certificates of one server and of its clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the certificate
}

// pair is a certificate and its key, both as PEM.
type pair struct{ cert, key []byte }

// newAuthority makes a new certificate authority with a key of its own.
func newAuthority(name string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	t, err := template(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, err
}

// server returns the certificate of a server on the loopback address.
func (a *authority) server() (pair, error) {
	return a.sign(pkix.Name{CommonName: "kube-apiserver"}, func(t *x509.Certificate) {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		t.DNSNames = []string{"localhost"}
		t.IPAddresses = []net.IP{net.ParseIP(loopback)}
	})
}

// client returns the certificate that identifies a user with groups of Kubernetes.
func (a *authority) client(user string, groups []string) (pair, error) {
	return a.sign(pkix.Name{CommonName: user, Organization: groups}, func(t *x509.Certificate) {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

func (a *authority) sign(subject pkix.Name, set func(*x509.Certificate)) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	t, err := template(subject)
	if err != nil {
		return pair{}, err
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	set(t)
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	private, err := privatePEM(key)
	return pair{cert: encode("CERTIFICATE", der), key: private}, err
}

func template(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-certBefore), NotAfter: now.Add(certAfter)}, nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// privatePEM encodes a key in the form that Kubernetes takes for its service accounts too.
func privatePEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
