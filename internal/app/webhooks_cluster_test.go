package app

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// denying is the configuration of a hook that reviews ConfigMaps of a namespace.
func denying(namespace string) string {
	return `configVersion: v1
kubernetesValidating:
- name: deny.example.com
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: ` + namespace + `}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]`
}

const deny = `echo '{"allowed": false, "message": "nothing is allowed here"}' > $ADMISSION_RESPONSE_PATH`

func TestCertManagerNeedsFiles(t *testing.T) {
	c := testenv.Shared(t)
	hooks := t.TempDir()
	testenv.ConfigurableHook(t, hooks, "deny.sh", denying("none"), deny)
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig,
		Args: []string{"--webhook-cert-manager", "security/webhooks"}, Status: 1})
	op.Wait()
	if got := op.Errors.String(); !strings.Contains(got,
		`with --webhook-cert-manager the certificates are those of cert-manager: cannot read the webhook certificate: open `+
			`/validating-certs/tls.crt: no such file or directory: mount the Secret there`) {
		t.Error(got)
	}
}
