package value

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// IsNumber reports whether a value is a JSON number in one of Go's types.
func IsNumber(v any) bool {
	switch v := v.(type) {
	case int64, float64, int, int32, uint32, uint64, float32:
		return true
	case json.Number:
		_, ok := parseDecimal(string(v))
		return ok
	}
	return false
}

// Integer returns the value of a whole number that fits an int64.
func Integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		i := int64(v)
		return i, v >= -1<<63 && v < 1<<63 && float64(i) == v
	case float32:
		return Integer(float64(v))
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i, true
		}
		d, ok := parseDecimal(string(v))
		return d.integer(ok)
	}
	return 0, false
}

// float returns the nearest float64 of a number.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	}
	i, ok := Integer(v)
	return float64(i), ok
}

// EqualNumbers reports whether two numbers are equal: whole numbers exactly, others as float64. A
// whole number beyond int64 in a float64 has already lost digits and is compared as such.
func EqualNumbers(a, b any) bool {
	if !IsNumber(a) || !IsNumber(b) {
		return false
	}
	x, small := Integer(a)
	y, ok := Integer(b)
	if small || ok {
		return small && ok && x == y
	}
	if p, q, ok := bothTexts(a, b); ok && p.whole() && q.whole() {
		return p == q
	}
	f, ok := float(a)
	g, also := float(b)
	if ok && also {
		return f == g
	}
	p, q, ok := bothTexts(a, b)
	return ok && p == q
}

// bothTexts returns two numbers whose digits are all known.
func bothTexts(a, b any) (p, q decimal, ok bool) {
	p, ok = exact(a)
	q, also := exact(b)
	return p, q, ok && also
}

func exact(v any) (decimal, bool) {
	switch v := v.(type) {
	case json.Number:
		return parseDecimal(string(v))
	case uint64:
		return parseDecimal(strconv.FormatUint(v, 10))
	}
	return decimal{}, false
}

// decimal is a number as its digits, without zeros at either end, times a power of ten. Equal
// numbers have equal decimals.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func (d decimal) whole() bool { return d.exponent >= 0 }

// integer returns the value of a whole decimal that fits an int64.
func (d decimal) integer(ok bool) (int64, bool) {
	if !ok || !d.whole() || len(d.digits)+d.exponent > 19 {
		return 0, false
	}
	text := d.digits + strings.Repeat("0", d.exponent)
	if d.negative {
		text = "-" + text
	}
	if d.digits == "" {
		return 0, true
	}
	i, err := strconv.ParseInt(text, 10, 64)
	return i, err == nil
}

// parseDecimal parses a number in JSON's notation.
func parseDecimal(text string) (decimal, bool) {
	d := decimal{}
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, power := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, power = text[:i], text[i+1:]
		p, err := strconv.Atoi(power)
		if err != nil || p > 1<<30 || p < -1<<30 {
			return d, false
		}
		d.exponent = p
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole == "" || !onlyDigits(whole) || !onlyDigits(fraction) {
		return d, false
	}
	d.exponent -= len(fraction)
	d.digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(d.digits, "0")
	d.exponent += len(d.digits) - len(trimmed)
	if d.digits = trimmed; trimmed == "" {
		d = decimal{}
	}
	return d, true
}

func onlyDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// SmallQuantity is digits times a power of ten; the digits do not end in zero.
type SmallQuantity struct {
	Digits   int64
	Exponent int8
}

// ParseSmallQuantity parses the usual quantities without allocating: digits, perhaps a fraction,
// and a suffix. It returns false for any other.
func ParseSmallQuantity(v any) (SmallQuantity, bool) {
	switch v := v.(type) {
	case string:
		return parseSmallQuantity(v)
	case int64:
		return reduced(v, 0), true
	}
	if i, ok := Integer(v); ok {
		return reduced(i, 0), true
	}
	return SmallQuantity{}, false
}

func parseSmallQuantity(text string) (SmallQuantity, bool) {
	var digits int64
	end, point := 0, -1
	for ; end < len(text); end++ {
		switch b := text[end]; {
		case b == '.' && point < 0:
			point = end
			continue
		case b < '0' || b > '9':
		case end > 17:
			return SmallQuantity{}, false
		default:
			digits = digits*10 + int64(b-'0')
			continue
		}
		break
	}
	exponent := 0
	if point >= 0 {
		exponent = point + 1 - end
	}
	if end == 0 || end == 1 && point == 0 {
		return SmallQuantity{}, false
	}
	factor, power, ok := suffix(text[end:])
	// Below nano a quantity is rounded, and beyond int64 cut; both are left to ParseQuantity.
	if exponent += power; !ok || exponent < -9 || digits > math.MaxInt64/factor || !fits(digits*factor, exponent) {
		return SmallQuantity{}, false
	}
	return reduced(digits*factor, exponent), true
}

// fits reports whether digits times a power of ten fit an int64.
func fits(digits int64, exponent int) bool {
	for ; exponent > 0 && digits > 0; exponent-- {
		if digits > math.MaxInt64/10 {
			return false
		}
		digits *= 10
	}
	return true
}

func reduced(digits int64, exponent int) SmallQuantity {
	for digits != 0 && digits%10 == 0 {
		digits /= 10
		exponent++
	}
	if digits == 0 {
		exponent = 0
	}
	return SmallQuantity{Digits: digits, Exponent: int8(exponent)}
}

// suffix returns the factor of a quantity's suffix, a number times a power of ten.
func suffix(text string) (factor int64, power int, ok bool) {
	if len(text) == 2 && text[1] == 'i' {
		i := strings.IndexByte("KMGTPE", text[0])
		return 1 << (10 * (max(i, 0) + 1)), 0, i >= 0
	}
	switch text {
	case "":
		return 1, 0, true
	case "n":
		return 1, -9, true
	case "u":
		return 1, -6, true
	case "m":
		return 1, -3, true
	case "k":
		return 1, 3, true
	case "M":
		return 1, 6, true
	case "G":
		return 1, 9, true
	case "T":
		return 1, 12, true
	case "P":
		return 1, 15, true
	case "E":
		return 1, 18, true
	}
	return 0, 0, false
}

// quantityText returns a quantity as text.
func quantityText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return string(v), true
	}
	if i, ok := Integer(v); ok {
		return strconv.FormatInt(i, 10), true
	}
	f, ok := float(v)
	return strconv.FormatFloat(f, 'g', -1, 64), ok
}
