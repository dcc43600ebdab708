package examples

import (
	"fmt"
	"strings"
	"testing"
)

func TestValidateImage(t *testing.T) {
	killedAndUndisturbed(t, prepareWebhooks, "validate-image", []string{"jq"}, validateImage)
}

// validateImage begins with a Pod that is denied by the hook, or by its failure when it is killed.
func validateImage(e *example) {
	first := "has no tag"
	if e.kills {
		first = "Hook failed"
	}
	e.input(imagePod("old", "nginx"), "create", "-f", "-")
	e.start(e.configurationName())
	e.operator.UntilLog("Webhooks are registered", "kind", "ValidatingWebhookConfiguration")
	e.patient("the first denial", func() bool {
		out, err := e.try(imagePod("one", "nginx"), "create", "-f", "-", "--dry-run=server")
		if err != nil && !strings.Contains(out, first) {
			e.t.Fatalf("the first denial is %s", out)
		}
		return err != nil
	})

	denied := func(want, input string, args ...string) {
		e.t.Helper()
		out, err := e.try(input, args...)
		if err == nil || !strings.Contains(out, `admission webhook "validate-image.example.com" denied the request: `+want) {
			e.t.Errorf("%v: not denied with %q: %s", args, want, out)
		}
	}
	denied("image 'nginx' of container 'main' has no tag: name a version", imagePod("one", "nginx"), "create", "-f", "-")
	denied("image 'nginx:latest' of container 'main' has the tag latest", imagePod("one", "nginx:latest"), "create", "-f", "-")
	denied("image 'host:5000/nginx' of container 'main' has no tag", imagePod("one", "host:5000/nginx"), "create", "-f", "-")
	denied("image 'busybox' of container 'init' has no tag", imagePod("one", "nginx:1.29", "busybox"), "create", "-f", "-")
	denied("image 'busybox:latest' of container 'init' has the tag latest; image 'nginx' of container 'main' has no tag",
		imagePod("one", "nginx", "busybox:latest"), "create", "-f", "-")
	denied("image 'nginx' of container 'nginx' has no tag", "", "create", "deployment", "web", "--image=nginx")

	// These are allowed.
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for i, image := range []string{"nginx:1.29", "host:5000/a/nginx:1", "nginx@" + digest, "nginx:latest@" + digest} {
		e.input(imagePod(fmt.Sprint("fine-", i), image, "busybox:1.37"), "create", "-f", "-")
	}
	e.kubectl("create", "deployment", "web", "--image=nginx:1.29", "--replicas=5")
	e.kubectl("wait", "--for=jsonpath={.status.replicas}=5", "deployment/web", "--timeout=60s")

	// In updates only new images are checked.
	denied("image 'nginx:latest' of container 'main' has the tag latest", "", "set", "image", "pod/fine-0", "main=nginx:latest")
	denied("image 'nginx' of container 'nginx' has no tag", "", "set", "image", "deployment/web", "nginx=nginx")
	denied("image 'busybox' of container 'debug' has no tag", "", "debug", "fine-0", "--image=busybox", "--container=debug")
	e.kubectl("set", "image", "deployment/web", "nginx=nginx:1.30")
	e.kubectl("set", "image", "pod/fine-0", "main=nginx:1.30")
	e.kubectl("label", "pod", "old", "seen=yes")
	denied("image 'nginx:latest' of container 'main' has the tag latest", "", "set", "image", "pod/old", "main=nginx:latest")
	e.kubectl("delete", "pod", "old", "--wait=false")

	// Other namespaces are not affected.
	other := e.podNamespace()
	e.input(imagePod("one", "nginx"), "-n", other, "create", "-f", "-")
	if got := e.kubectl("get", "pods", "one", "--ignore-not-found"); got != "" {
		e.t.Errorf("this was denied: %s", got)
	}
}

// imagePod is a Pod with an image and, if given, one of an init container.
func imagePod(name, image string, initial ...string) string {
	inits := ""
	if len(initial) > 0 {
		inits = `"initContainers": [{"name": "init", "image": "` + initial[0] + `"}], `
	}
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `"}, "spec": {` + inits +
		`"containers": [{"name": "main", "image": "` + image + `"}]}}`
}
