package kube

import (
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The kubeconfig leads to the same server by the same proxy, and has no credential of the connection that it is made of.
func TestTokenKubeconfig(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	proxy, _ := url.Parse("http://proxy.example.com:3128")
	text, err := TokenKubeconfig(&rest.Config{
		Host: "https://cluster.example.com:6443", BearerToken: "secret", BearerTokenFile: "/secret", Username: "secret",
		TLSClientConfig: rest.TLSClientConfig{CAFile: "/ca.crt", ServerName: "kubernetes", CertFile: "/secret", KeyData: []byte("secret")},
		Proxy:           http.ProxyURL(proxy),
	}, token, "shop")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	c, user := raw.Clusters["tenant"], raw.AuthInfos["tenant"]
	if raw.Contexts[raw.CurrentContext].Namespace != "shop" || c.Server != "https://cluster.example.com:6443" ||
		c.TLSServerName != "kubernetes" ||
		c.CertificateAuthority != "/ca.crt" || c.ProxyURL != proxy.String() || user.TokenFile != token || user.Token+user.Username != "" ||
		user.ClientCertificate != "" || len(user.ClientKeyData) > 0 {
		t.Errorf("%s", text)
	}
}
