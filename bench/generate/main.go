// generate prints the objects that the benchmarks work on, as JSON, one in a line:
//
//	go run ./bench/generate -kind Pod -count 100 | kubectl create -f -
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/shell-operator/shell-operator/bench/objects"
)

func main() {
	kind := flag.String("kind", "ConfigMap", "ConfigMap, Pod, Secret or Event")
	count := flag.Int("count", 1, "how many")
	size := flag.Int("size", 2048, "payload of a ConfigMap in bytes")
	namespace := flag.String("namespace", "default", "namespace that Events speak of")
	flag.Parse()
	if err := generate(*kind, *count, *size, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(kind string, count, size int, namespace string) error {
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	for i := range count {
		var object any
		switch kind {
		case "ConfigMap":
			object = objects.ConfigMap(i, size)
		case "Pod":
			object = objects.Pod(i)
		case "Secret":
			object = objects.Secret(i)
		case "Event":
			object = objects.Event(i, namespace)
		default:
			return fmt.Errorf("unknown kind %q: choose ConfigMap, Pod, Secret or Event", kind)
		}
		if err := enc.Encode(object); err != nil {
			return err
		}
	}
	return out.Flush()
}
