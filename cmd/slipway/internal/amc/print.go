package amc

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// printing has the flags of the output, which are kubectl's.
type printing struct {
	flags                 *genericclioptions.PrintFlags
	noHeaders, showLabels bool
	labelColumns          []string
}

func newPrinting() printing {
	return printing{flags: genericclioptions.NewPrintFlags("")}
}

func (p *printing) addFlags(cmd *cobra.Command) {
	p.flags.AddFlags(cmd)
	if f := cmd.Flags().Lookup("template"); f != nil { // the usage of kubectl has a long URL
		f.Usage = "template of -o go-template, or the file of one for -o go-template-file"
	}
	output := cmd.Flags().Lookup("output")
	output.Usage = "wide, name, json, yaml, jsonpath=…, go-template=… and kubectl's other formats except custom-columns; default a table"
	flags := cmd.Flags()
	flags.BoolVar(&p.noHeaders, "no-headers", false, "show tables without the line of their columns")
	flags.BoolVar(&p.showLabels, "show-labels", false, "show the labels of objects in a column")
	flags.StringSliceVarP(&p.labelColumns, "label-columns", "L", nil, "show these labels of objects in a column each")
}

const wide = "wide"

// printer returns the printer for members.
func (p *printing) printer(streams genericiooptions.IOStreams) (*printer, error) {
	show := &printer{IOStreams: streams, printing: p}
	if format := *p.flags.OutputFormat; format != "" && format != wide && format != cli.Table {
		var err error
		if show.format, err = p.flags.ToPrinter(); err != nil {
			return nil, cli.Usagef("-o %s: %w", format, err)
		}
	}
	return show, nil
}

// printer shows members one after the other.
type printer struct {
	genericiooptions.IOStreams
	*printing
	// format is nil for tables.
	format printers.ResourcePrinter
}

func (p *printer) isTable() bool { return p.format == nil }

// member shows the objects of a member, below its name, and its errors. For a format that
// programs read, the name is on standard error.
func (p *printer) member(a *answer) error {
	title := p.ErrOut
	if p.isTable() {
		title = p.Out
	}
	if _, err := fmt.Fprintln(title, "Run on ManagedCluster "+cli.Printable(a.name)); err != nil {
		return err
	}
	shown := p.table
	if !p.isTable() {
		shown = p.formatted
	}
	if err := shown(a); err != nil {
		return err
	}
	for _, err := range a.errs {
		if _, err := fmt.Fprintln(p.ErrOut, cli.Printable(errorText(err))); err != nil {
			return err
		}
	}
	return nil
}

// formatted shows one object, or a list of them.
func (p *printer) formatted(a *answer) error {
	if a.isOne {
		for _, info := range a.infos {
			if err := p.format.PrintObj(info.Object, p.Out); err != nil {
				return err
			}
		}
		return nil
	}
	if len(a.infos) == 0 && len(a.errs) > 0 {
		return nil
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}}
	for _, info := range a.infos {
		if obj, ok := info.Object.(*unstructured.Unstructured); ok {
			list.Items = append(list.Items, *obj)
		}
	}
	return p.format.PrintObj(list, p.Out)
}

// table shows objects in a table for each of their kinds.
func (p *printer) table(a *answer) error {
	out := &parted{Writer: p.Out}
	w := printers.GetNewTabWriter(out)
	kinds := kindsOf(a)
	var rows printers.ResourcePrinter
	var last *meta.RESTMapping
	for _, info := range a.infos {
		if last == nil || last.Resource != info.Mapping.Resource {
			if err := w.Flush(); err != nil {
				return err
			}
			w.SetRememberedWidths(nil)
			out.part = out.written && !p.noHeaders
			last, rows = info.Mapping, p.rows(info.Mapping, kinds.several, kinds.namespaced && a.query.allNamespaces)
		}
		obj, err := tableOf(info)
		if err == nil {
			err = rows.PrintObj(obj, w)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil || out.written || len(a.errs) > 0 || a.query.ignoreNotFound {
		return err
	}
	text := "No resources found"
	if !a.query.allNamespaces && !kinds.cluster {
		text += " in " + a.query.namespace + " namespace."
	}
	_, err := fmt.Fprintln(p.ErrOut, text)
	return err
}

// kinds summarizes the kinds of an answer's objects.
type kinds struct{ several, namespaced, cluster bool }

func kindsOf(a *answer) (k kinds) {
	for _, info := range a.infos {
		k.several = k.several || info.Mapping.GroupVersionKind != a.infos[0].Mapping.GroupVersionKind
		if info.Mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			k.namespaced = true
		} else {
			k.cluster = true
		}
	}
	return k
}

// rows returns the printer for the objects of a kind.
func (p *printer) rows(of *meta.RESTMapping, withKind, withNamespace bool) printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{
		Kind: of.GroupVersionKind.GroupKind(), WithKind: withKind, WithNamespace: withNamespace,
		NoHeaders: p.noHeaders, Wide: *p.flags.OutputFormat == wide, ShowLabels: p.showLabels, ColumnLabels: p.labelColumns,
	})
}

// tableOf returns the table of an API server, with its objects, or the object if the API server
// makes no tables of the kind.
func tableOf(info *resource.Info) (runtime.Object, error) {
	obj, ok := info.Object.(*unstructured.Unstructured)
	if !ok || obj.GroupVersionKind().Group != metav1.GroupName || obj.GetKind() != "Table" {
		return info.Object, nil
	}
	table := &metav1.Table{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, table); err != nil {
		return nil, err
	}
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if row.Raw == nil {
			continue
		}
		of, err := runtime.Decode(unstructured.UnstructuredJSONScheme, row.Raw)
		if err != nil {
			return nil, err
		}
		row.Object = of
	}
	return table, nil
}

// parted writes an empty line before the next part of a text.
type parted struct {
	io.Writer
	written, part bool
}

func (w *parted) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if w.part {
		if _, err := fmt.Fprintln(w.Writer); err != nil {
			return 0, err
		}
	}
	w.written, w.part = true, false
	return w.Writer.Write(p)
}

// errorText formats an error like kubectl.
func errorText(err error) string {
	status := apierrors.APIStatus(nil)
	address := (*url.Error)(nil)
	switch {
	case apierrors.IsUnauthorized(err):
		return "error: You must be logged in to the server (" + err.Error() + ")"
	case errors.As(err, &status):
		if reason := status.Status().Reason; reason != "" {
			return fmt.Sprintf("Error from server (%s): %v", reason, err)
		}
		return "Error from server: " + err.Error()
	case errors.As(err, &address):
		return "Unable to connect to the server: " + address.Err.Error()
	}
	return "error: " + strings.TrimPrefix(err.Error(), "error: ")
}
