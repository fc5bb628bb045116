package router

import (
	"bytes"
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
)

// appendJavaFloat appends what Double.toString or Float.toString prints for a float that Postgres sent: plain between
// 1E-3 and 1E7, else with an exponent, always with a digit behind the point. quoteSpecial is for JSON, where NaN and
// Infinity are strings.
func appendJavaFloat(dst, text []byte, bits int, quoteSpecial bool) ([]byte, error) {
	f, err := strconv.ParseFloat(string(text), bits)
	if err != nil {
		return dst, poison("%s is not a floating point number", clip(text))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		name := "NaN"
		if math.IsInf(f, 1) {
			name = "Infinity"
		} else if math.IsInf(f, -1) {
			name = "-Infinity"
		}
		if quoteSpecial {
			return appendJSONString(dst, name), nil
		}
		return append(dst, name...), nil
	}
	return appendJavaDigits(dst, f, bits), nil
}

func appendJavaDigits(dst []byte, f float64, bits int) []byte {
	if abs := math.Abs(f); f == 0 || abs >= 1e-3 && abs < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	var buffer [32]byte
	shortest := strconv.AppendFloat(buffer[:0], f, 'e', -1, bits) // such as 1e+300 or -1.5e-07
	mantissa, exponent, _ := bytes.Cut(shortest, []byte{'e'})
	dst = append(dst, mantissa...)
	if bytes.IndexByte(mantissa, '.') < 0 {
		dst = append(dst, ".0"...)
	}
	dst = append(dst, 'E')
	if exponent[0] == '-' {
		dst = append(dst, '-')
	}
	return append(dst, bytes.TrimLeft(exponent[1:], "0")...)
}

// decimal is a numeric of Postgres as java.math.BigDecimal holds it: digits, sign, and the number of digits behind the
// point.
type decimal struct {
	negative bool
	digits   []byte // without leading zeros; empty for zero
	scale    int
}

// parseDecimal reads the output of numeric. NaN and the infinities are not decimals.
func parseDecimal(text []byte, buffer []byte) (decimal, bool) {
	var d decimal
	rest := text
	if len(rest) > 0 && rest[0] == '-' {
		d.negative, rest = true, rest[1:]
	}
	whole, fraction, _ := bytes.Cut(rest, []byte{'.'})
	d.digits = append(append(buffer, whole...), fraction...)
	for _, c := range d.digits {
		if !isDigit(c) {
			return decimal{}, false
		}
	}
	valid := len(d.digits) > 0
	d.digits = bytes.TrimLeft(d.digits, "0")
	d.scale = len(fraction)
	d.negative = d.negative && len(d.digits) > 0
	return d, valid
}

// stripped is BigDecimal.stripTrailingZeros, but never with a negative scale: what Debezium does to a numeric without a
// declared scale.
func (d decimal) stripped() decimal {
	for d.scale > 0 && (len(d.digits) == 0 || d.digits[len(d.digits)-1] == '0') {
		if len(d.digits) == 0 {
			d.scale = 0
			break
		}
		d.digits = d.digits[:len(d.digits)-1]
		d.scale--
	}
	return d
}

// appendJava is BigDecimal.toString, which turns to an exponent below 1E-6.
func (d decimal) appendJava(dst, text []byte) []byte {
	n := max(1, len(d.digits))
	exponent := n - 1 - d.scale
	if exponent >= -6 {
		return append(dst, text...)
	}
	if d.negative {
		dst = append(dst, '-')
	}
	digits := d.digits
	if len(digits) == 0 {
		digits = []byte{'0'}
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'E')
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// appendBase64 appends the unscaled value as BigInteger.toByteArray in base64: two's complement, big-endian, shortest.
func (d decimal) appendBase64(dst []byte) []byte {
	v := new(big.Int)
	if len(d.digits) > 0 {
		v.SetString(string(d.digits), 10)
	}
	if d.negative {
		v.Neg(v)
	}
	return base64.StdEncoding.AppendEncode(dst, twosComplement(v))
}

func twosComplement(v *big.Int) []byte {
	if v.Sign() >= 0 {
		return v.FillBytes(make([]byte, v.BitLen()/8+1))
	}
	b := twosComplement(new(big.Int).Not(v)) // -v-1 has the same bits, inverted
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// appendMoneyDigits appends a money such as -$1,234.50 without the currency and the separators of thousands. The
// decimal point must be a dot, as in Debezium.
func appendMoneyDigits(dst, text []byte) []byte {
	if len(text) > 0 && (text[0] == '-' || text[0] == '(') {
		dst = append(dst, '-')
	}
	for _, c := range text {
		if isDigit(c) || c == '.' {
			dst = append(dst, c)
		}
	}
	return dst
}
