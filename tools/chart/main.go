// Program chart does with a Helm chart what tests and releases need, with Helm's own libraries:
//
//	chart render [--name NAME] [--namespace NAME] [--values FILE]… [--no-hooks] [--notes] [--kubeconfig FILE] DIR
//	                                                                      prints the manifests, as helm template does
//	chart package [--version V] [--app-version V] [--to DIR] DIR          writes shell-operator-V.tgz, as helm package does
//
// Values are checked against the chart's schema. Without a kubeconfig lookups find nothing. Files in a package have the time
// that SOURCE_DATE_EPOCH says, so that the same chart gives the same package.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm logs each symbolic link in the chart
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("which command? chart render or chart package")
	}
	switch args[0] {
	case "render":
		return render(args[1:], stdout)
	case "package":
		return pack(args[1:], stdout)
	}
	return fmt.Errorf("unknown command %q: chart render or chart package", args[0])
}

// files is a flag that can be given several times.
type files []string

func (f *files) String() string { return strings.Join(*f, ",") }

func (f *files) Set(value string) error {
	*f = append(*f, value)
	return nil
}

func load(flags *flag.FlagSet) (*chart.Chart, error) {
	if flags.NArg() != 1 {
		return nil, errors.New("name one directory of a chart")
	}
	return loader.LoadDir(flags.Arg(0))
}

func render(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("render", flag.ContinueOnError)
	name := flags.String("name", "shell-operator", "name of the release")
	namespace := flags.String("namespace", "default", "namespace of the release")
	var valueFiles files
	flags.Var(&valueFiles, "values", "file with values; later ones win")
	noHooks := flags.Bool("no-hooks", false, "leave out Helm's hooks: tests, and Jobs around an installation")
	notes := flags.Bool("notes", false, "only the notes, which Helm prints after an installation")
	kubeconfig := flags.String("kubeconfig", "", "cluster for lookups")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := load(flags)
	if err != nil {
		return err
	}
	given := map[string]any{}
	for _, file := range valueFiles {
		values, err := common.ReadValuesFile(file)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
		// What is given later wins: tables are merged, all else is replaced.
		given = commonutil.MergeTables(values, given)
	}
	release := common.ReleaseOptions{Name: *name, Namespace: *namespace, Revision: 1, IsInstall: true}
	values, err := commonutil.ToRenderValues(c, given, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	texts, err := execute(c, values, *kubeconfig)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		text := strings.TrimSpace(texts[file])
		if *notes {
			if path.Base(file) == "NOTES.txt" {
				fmt.Fprintln(stdout, text)
			}
			continue
		}
		if text == "" || path.Ext(file) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
			if !*noHooks || !strings.Contains(document, "\n    helm.sh/hook: ") {
				fmt.Fprintf(stdout, "---\n%s\n", strings.TrimSpace(document))
			}
		}
	}
	return nil
}

// execute renders the templates by file.
func execute(c *chart.Chart, values common.Values, kubeconfig string) (map[string]string, error) {
	if kubeconfig == "" {
		return engine.Render(c, values)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return engine.RenderWithClient(c, values, config)
}

func pack(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	to := flags.String("to", ".", "directory for the package")
	version := flags.String("version", "", "version of the chart, without a leading v; default: that of Chart.yaml")
	app := flags.String("app-version", "", "version of the program, which is the tag of its image; default: that of Chart.yaml")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := load(flags)
	if err != nil {
		return err
	}
	c.Metadata.Version = cmp.Or(*version, c.Metadata.Version)
	c.Metadata.AppVersion = cmp.Or(*app, c.Metadata.AppVersion)
	if err := c.Validate(); err != nil {
		return err
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
		}
		setTime(c, time.Unix(seconds, 0).UTC())
	}
	file, err := chartutil.Save(c, *to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, file)
	return err
}

// setTime makes everything in the package as old as at.
func setTime(c *chart.Chart, at time.Time) {
	c.ModTime, c.SchemaModTime = at, at
	for _, files := range [][]*common.File{c.Raw, c.Templates, c.Files} {
		for _, f := range files {
			f.ModTime = at
		}
	}
}
