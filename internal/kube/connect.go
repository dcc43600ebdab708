package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options of the connection to the API server.
type Options struct {
	// Kubeconfig is a path; empty means $KUBECONFIG, ~/.kube/config, or the ServiceAccount of the Pod.
	Kubeconfig string
	// Context and Server override the kubeconfig.
	Context, Server string
	// QPS and Burst limit requests of the operator; a negative QPS means no limit.
	QPS   float32
	Burst int

	// Inside makes tests, which run in no Pod, register webhooks as a Pod does.
	Inside bool
}

// Cluster is a connection to the API server, for the operator and for hooks.
type Cluster struct {
	Config *rest.Config
	// Inside reports that the operator runs in a Pod of the cluster.
	Inside bool
	// Namespace is the namespace of the kubeconfig's context; empty inside.
	Namespace string
	// Env has the variables by which kubectl in a hook reaches the same cluster.
	Env []string
}

// Connect finds the connection to the API server, without a request. It writes files to dir.
func Connect(o Options, dir string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		if before, _, ok := strings.Cut(err.Error(), ": couldn't get version/kind"); ok { // the rest are structs of Go
			err = errors.New(before + ": it is no kubeconfig")
		}
		return nil, fmt.Errorf("cannot read the kubeconfig: %w: check --kube-config (KUBE_CONFIG) and $KUBECONFIG", err)
	}
	explicit := o.Kubeconfig != "" || o.Context != ""
	c := &Cluster{}
	if !explicit && o.Server == "" && clientcmdapi.IsConfigEmpty(&raw) {
		c.Config, err = rest.InClusterConfig()
		c.Inside = err == nil
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("no kubeconfig found and not running in a Pod: set --kube-config (KUBE_CONFIG), $KUBECONFIG or ~/.kube/config")
		}
	} else if explicit && o.Server == "" && clientcmdapi.IsConfigEmpty(&raw) {
		err = errors.New("the kubeconfig has no cluster: check --kube-config (KUBE_CONFIG) and $KUBECONFIG")
	} else if _, there := raw.Contexts[o.Context]; o.Context != "" && !there {
		err = fmt.Errorf("the kubeconfig has no context %q: kubectl config get-contexts shows those that it has", o.Context)
	} else if c.Config, err = loader.ClientConfig(); err == nil {
		c.Namespace, _, _ = loader.Namespace()
		c.Env, err = kubeconfigForHooks(o, raw, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the API server: %w", err)
	}
	c.Inside = c.Inside || o.Inside
	c.Config.QPS, c.Config.Burst = o.QPS, o.Burst
	c.Config.UserAgent = "shell-operator"
	return c, nil
}

// DefaultKubeconfig is the value of KUBECONFIG that names the files which are used without a path.
func DefaultKubeconfig() string {
	return strings.Join(clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence(), string(filepath.ListSeparator))
}

// OwnNamespace returns the namespace of the operator's own objects: the given one, or the namespace of the
// kubeconfig's context, or of the Pod.
func (c *Cluster) OwnNamespace(given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case c.Namespace != "":
		return c.Namespace, nil
	}
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", fmt.Errorf("cannot find the operator's own namespace: %w: set --namespace (SHELL_OPERATOR_NAMESPACE)", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// kubeconfigForHooks returns the variable that makes kubectl use the same cluster. With overrides that is a private
// kubeconfig.
func kubeconfigForHooks(o Options, raw clientcmdapi.Config, dir string) ([]string, error) {
	if o.Context == "" && o.Server == "" {
		if o.Kubeconfig == "" {
			return nil, nil // the hook inherits what the operator has found
		}
		path, err := filepath.Abs(o.Kubeconfig)
		return []string{"KUBECONFIG=" + path}, err
	}
	if o.Context != "" {
		raw.CurrentContext = o.Context
	}
	if raw.CurrentContext == "" { // an address alone is enough, as for kubectl proxy
		raw = *clientcmdapi.NewConfig()
		raw.Clusters["server"], raw.Contexts["server"] = &clientcmdapi.Cluster{}, &clientcmdapi.Context{Cluster: "server"}
		raw.CurrentContext = "server"
	}
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return nil, fmt.Errorf("cannot use context %q of the kubeconfig: %w", raw.CurrentContext, err)
	}
	if err := clientcmdapi.FlattenConfig(&raw); err != nil {
		return nil, fmt.Errorf("cannot read the certificates of the kubeconfig: %w", err)
	}
	for _, known := range raw.Clusters {
		if o.Server != "" {
			known.Server = o.Server
		}
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(raw, path); err != nil { // mode 0600
		return nil, fmt.Errorf("cannot write a kubeconfig for hooks: %w", err)
	}
	return []string{"KUBECONFIG=" + path}, nil
}
