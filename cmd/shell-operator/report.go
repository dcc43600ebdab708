package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// annotation is a message that GitHub shows at a line of a file.
type annotation struct {
	level, file  string
	line, column int
	title, text  string
}

// annotationProperty and annotationText escape what separates the parts of an annotation.
var (
	annotationText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	annotationProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func printAnnotations(w io.Writer, all []annotation) error {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "::%s file=%s", a.level, annotationProperty.Replace(a.file))
		if a.line > 0 {
			fmt.Fprintf(&b, ",line=%d", a.line)
		}
		if a.column > 0 {
			fmt.Fprintf(&b, ",col=%d", a.column)
		}
		if a.title != "" {
			fmt.Fprintf(&b, ",title=%s", annotationProperty.Replace(a.title))
		}
		fmt.Fprintf(&b, "::%s\n", annotationText.Replace(a.text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// The elements of a JUnit report.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Stdout  string        `xml:"system-out,omitempty"`
		Stderr  string        `xml:"system-err,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func printJUnit(w io.Writer, suites junitSuites) error {
	text, err := xml.MarshalIndent(suites, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
