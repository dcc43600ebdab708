package kube

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TokenKubeconfig returns a kubeconfig with the server, the CA and the proxy of a connection, a token that clients read from a file, and a
// default namespace. It has no credential.
func TokenKubeconfig(config *rest.Config, tokenFile, namespace string) ([]byte, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a kubeconfig: %w", err)
	}
	cluster := &clientcmdapi.Cluster{
		Server: server.String(), CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure,
		TLSServerName: config.ServerName,
	}
	if len(config.CAData) == 0 && config.CAFile != "" {
		if cluster.CertificateAuthority, err = filepath.Abs(config.CAFile); err != nil {
			return nil, fmt.Errorf("cannot make a kubeconfig: %w", err)
		}
	}
	if proxy, err := proxyOf(config, server); err != nil {
		return nil, fmt.Errorf("cannot make a kubeconfig: the proxy is not known: %w", err)
	} else if proxy != nil {
		cluster.ProxyURL = proxy.String()
	}
	const name = "tenant"
	out := clientcmdapi.NewConfig()
	out.Clusters[name], out.AuthInfos[name] = cluster, &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}

// proxyOf returns the proxy of a connection, or nil. A client with other variables would find another one.
func proxyOf(config *rest.Config, server *url.URL) (*url.URL, error) {
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return proxy(&http.Request{URL: server})
}
