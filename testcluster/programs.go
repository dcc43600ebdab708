package main

import (
	"os"
	_ "time/tzdata" // CronJobs may name a time zone, and the machine may know none.

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics that a real component exposes
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// The programs that this file contains. They cannot share a process: gates, logging and metrics of Kubernetes
// components are set once per process. Each function reads os.Args and returns the exit code.

func etcd() int {
	etcdmain.Main(os.Args) // exits by itself when it fails
	return 0
}

func apiServer() int { return cli.Run(newAPIServerCommand()) }

func controllerManager() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }

func kubectl() int {
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl does and exits
	}
	return 0
}
