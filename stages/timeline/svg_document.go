package timeline

import (
	"bytes"
	"fmt"
)

// classes are the names of the styles of kinds.
var classes = map[Kind]string{ //nolint:gochecknoglobals // a constant table
	Queued: "qu", Closed: "cl", Yielded: "yi", Applying: "ap", Settling: "se", Soaking: "so", Measuring: "me", BackingOff: "ba",
	Completed: "ok", Failed: "no", Skipped: "sk", Wait: "wa", Scheduled: "sc", Approval: "yes", Rejected: "rej",
	Expired: "ex", Checked: "ck", CheckFailed: "cf", HeldByCheck: "he", Stopping: "sg", Stopped: "sd",
}

// style is the style of all drawings. Colours of segments suit light and dark pages.
const style = `text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2328}` +
	`.h{font-size:16px;font-weight:600}.b{font-weight:600}.m,.s{fill:#59636e}.s{font-size:10.5px}.i{font-size:10px;fill:#fff}` +
	`.bg{fill:#fff}.fu{fill:#f3f5f8}.g{stroke:#d1d9e0;fill:none}.gl{stroke:#e6eaef;fill:none}.now{stroke:#cf222e;fill:none;stroke-dasharray:4 3}` +
	`.e{opacity:.5}.st{fill:#8c6c4f;opacity:.12}.tr{fill:#eff2f5}.mk{fill:#59636e}` +
	`.qu{fill:#d7dde4}.ap{fill:#2f7de1}.se{fill:#13a3b8}.so{fill:#8a63d2}.me{fill:#bf4b8a}.ba{fill:#e08a1e}.yi{fill:#d9a58c}.cl{fill:url(#hatch)}` +
	`.wa{fill:#7d8590}.sc{fill:#5b7083}.yes{fill:#b58900}.rej{fill:#cf222e}.ex{fill:#a0a7b0}.ck{fill:#bf4b8a}.cf{fill:#cf222e}.he{fill:#d4883a}.sg{fill:#d4883a}.sd{fill:#8c6c4f}` +
	`.ok,.no,.sk{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}.ok{stroke:#1a8f3c}.no{stroke:#cf222e}.sk{stroke:#7d8590}` +
	`.okf{fill:#2da44e}.nof{fill:#cf222e}.skf{fill:#9aa4af}.hs{stroke:#8a94a0;stroke-width:2}.hb{fill:#edf0f3}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m,.s{fill:#9198a1}.i{fill:#fff}.bg{fill:#0d1117}.fu{fill:#151b23}` +
	`.g{stroke:#3d444d}.gl{stroke:#262c36}.tr{fill:#1b222c}.mk{fill:#9198a1}.qu{fill:#39424e}.now{stroke:#ff7b72}.hb{fill:#20262e}.hs{stroke:#656e79}` +
	`.ok{stroke:#3fb950}.no{stroke:#ff6a5f}.sk{stroke:#9198a1}}`

// document puts the drawing between the axes and a legend.
func (d *drawing) document() []byte {
	bottom := d.y
	var axes, out bytes.Buffer
	d.axes(&axes, bottom)
	d.y = bottom + 34
	d.legend()
	height := d.y + margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img"><title>%s</title><style>%s</style>`,
		px(d.width), px(height), px(d.width), px(height), escape(d.t.title()), style)
	out.WriteString(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hb" d="M0 0h6v6h-6z"/><path class="hs" d="M0 0v6"/></pattern></defs>`)
	fmt.Fprintf(&out, `<rect class="bg" width="%s" height="%s"/>`, px(d.width), px(height))
	out.Write(axes.Bytes())
	out.Write(d.body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// axes draws the grid with the times above and the offsets below, and the expected part on
// another background.
func (d *drawing) axes(out *bytes.Buffer, bottom float64) {
	body := d.body
	d.body = bytes.Buffer{}
	left := margin + labels
	if !d.t.Now.IsZero() {
		x := d.x(d.t.Now)
		d.printf(`<rect class="fu" x="%s" y="%s" width="%s" height="%s"/>`, px(x), px(d.top), px(d.right()-x), px(bottom-d.top))
	}
	for i := range d.t.Segments {
		if s := &d.t.Segments[i]; s.Kind == Stopped {
			d.printf(`<rect class="st" x="%s" y="%s" width="%s" height="%s"/>`, px(d.x(s.From)), px(d.top), px(d.x(s.To)-d.x(s.From)), px(bottom-d.top))
		}
	}
	most := max(int(d.scale.width/110), 2)
	for _, k := range d.scale.clock(most) {
		x := d.x(k.at)
		d.printf(`<path class="gl" d="M%s %sV%s"/>`, px(x), px(d.top), px(bottom))
		d.axisText(x, d.top-5, k.label)
	}
	d.printf(`<path class="g" d="M%s %sH%sM%s %sH%s"/>`, px(left), px(d.top), px(d.right()), px(left), px(bottom), px(d.right()))
	for _, k := range d.scale.offsets(most) {
		x := d.x(k.at)
		d.printf(`<path class="g" d="M%s %sv4"/>`, px(x), px(bottom))
		d.axisText(x, bottom+15, k.label)
	}
	d.text(margin, d.top-5, "m", "", "UTC", "")
	d.text(margin, bottom+15, "m", "", "since the start", "")
	if !d.t.Now.IsZero() {
		x := d.x(d.t.Now)
		d.printf(`<path class="now" d="M%s %sV%s"><title>now: %s; what is to the right is expected</title></path>`, px(x), px(d.top), px(bottom), moment(d.t.Now))
		d.axisText(x, bottom+28, "now")
	}
	d.printf("\n")
	out.Write(d.body.Bytes())
	d.body = body
}

// axisText writes words around a position, within the chart.
func (d *drawing) axisText(x, y float64, words string) {
	half := float64(len(words)) * letter / 2
	switch {
	case x-half < margin+labels:
		d.text(x, y, "m", "", words, "")
	case x+half > d.right():
		d.text(d.right(), y, "m", "end", words, "")
	default:
		d.text(x, y, "m", "middle", words, "")
	}
}

// legend explains the kinds that were drawn.
func (d *drawing) legend() {
	d.y += 6
	x := margin + labels
	for _, k := range kinds {
		if !d.used[k] {
			continue
		}
		words := kindWords[k]
		width := 14 + 6 + float64(len(words))*letter + 14
		if x+width > d.right() {
			x = margin + labels
			d.y += laneHeight + 2
		}
		if glyph, ok := glyphs[k]; ok {
			d.printf(`<path class="%s" transform="translate(%s %s)" d="%s"/>`, classes[k], px(x+7), px(d.y+5), glyph)
		} else {
			d.printf(`<rect class="%s" x="%s" y="%s" width="14" height="10"/>`, classes[k], px(x), px(d.y))
		}
		d.text(x+20, d.y+9, "m", "", words, "")
		x += width
	}
	d.y += laneHeight
}
