// Program kubectl, trimmed: the commands of kubectl that hooks call most, in a program that starts in less than half the time. The
// same packages of the same version carry them out, so output, exit status and requests are those of kubectl. For all else this
// process becomes the next kubectl in PATH, as it does if that is not the one that was built together with this program.
package main

import (
	"log"
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // users of a kubeconfig with an auth-provider
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/shell-operator/shell-operator/kubectl/trimmed/first"
	_ "github.com/shell-operator/shell-operator/kubectl/trimmed/heap"
	_ "github.com/shell-operator/shell-operator/kubectl/trimmed/untranslated"
)

func main() {
	root, reason := newRoot(os.Args[1:])
	if root == nil {
		first.Exec(reason)
	}
	// What kubectl does by component-base/cli, which also links the flags of logs and with them Prometheus.
	log.SetFlags(0)
	log.SetOutput(toKlog{})
	klog.EnableContextualLogging(false)
	root.SilenceErrors = true
	err := root.Execute()
	klog.Flush()
	if err != nil {
		cmdutil.CheckErr(err) // prints as kubectl does and exits
	}
}

// toKlog passes messages of the standard library on.
type toKlog struct{}

func (toKlog) Write(message []byte) (int, error) {
	klog.InfoDepth(1, string(message))
	return len(message), nil
}
