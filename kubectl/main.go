// Program kubectl is the complete kubectl of the version of the operator's client library.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // users of a kubeconfig with an auth-provider
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// Before the commands exist: building them reads a kuberc file and looks for plugins, which log.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err) // prints as kubectl does and exits
	}
}
