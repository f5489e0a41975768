// helm-chart lint CHART, helm-chart template NAME CHART [KEY=VALUE ...]: what `helm lint --strict` and `helm template` do, by Helm's own
// packages. The whole of helm takes twice as long to build. Used by tests/deploy/test_helm.py.
package main

import (
	"fmt"
	"log"
	"os"
	"sort"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
)

func check(chart string) error {
	found := lint.AllWithKubeVersion(chart, map[string]any{}, "default", nil)
	for _, message := range found.Messages {
		fmt.Println(message)
	}
	if found.HighestSeverity >= support.WarningSev {
		return fmt.Errorf("%s has faults", chart)
	}
	return nil
}

func render(name, path string, settings []string) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	given := map[string]any{}
	for _, setting := range settings {
		if err := strvals.ParseInto(setting, given); err != nil {
			return err
		}
	}
	if err := chartutil.ProcessDependencies(chart, given); err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: name, Namespace: "default", Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for file := range files {
		names = append(names, file)
	}
	sort.Strings(names)
	for _, file := range names {
		fmt.Printf("---\n# Source: %s\n%s\n", file, files[file])
	}
	return nil
}

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "lint":
		err = check(os.Args[2])
	case len(os.Args) >= 4 && os.Args[1] == "template":
		err = render(os.Args[2], os.Args[3], os.Args[4:])
	default:
		log.Fatal("usage: helm-chart lint CHART | helm-chart template NAME CHART [KEY=VALUE ...]")
	}
	if err != nil {
		log.Fatal(err)
	}
}
