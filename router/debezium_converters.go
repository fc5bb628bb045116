package router

import "strings"

// Connect's converters, by class.
const (
	stringConverter     = "org.apache.kafka.connect.storage.StringConverter"
	simpleConverter     = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
	jsonConverter       = "org.apache.kafka.connect.json.JsonConverter"
	byteArrayConverter  = "org.apache.kafka.connect.converters.ByteArrayConverter"
	binaryDataConverter = "io.debezium.converters.BinaryDataConverter"
	dbzBytesConverter   = "io.debezium.converters.ByteArrayConverter"
)

// converters translates key.converter, value.converter and header.converter with what belongs to them.
func (d *debezium) converters() {
	c := &d.config
	d.keyConverter(&c.Key)
	d.valueConverter(&c.Value)
	switch class := d.options["header.converter"]; class {
	case jsonConverter:
		c.Headers.Format = formatJSON
		c.Headers.Schemas = d.schemas("header.converter.")
		d.find("header.converter", Translated, "headers.format: json")
	case stringConverter:
		c.Headers.Format = formatString
		d.find("header.converter", Translated, "headers.format: string")
	case simpleConverter, "":
		if class != "" {
			d.find("header.converter", Translated, "headers.format: text")
		}
	default:
		d.find("header.converter", NotSupported, "headers are written as SimpleHeaderConverter does")
	}
	d.all("header.converter.", NotSupported, "this setting of the converter has no counterpart")
}

// schemas reads schemas.enable, which is true unless set.
func (d *debezium) schemas(prefix string) bool {
	value, ok := d.options[prefix+"schemas.enable"]
	if ok {
		d.find(prefix+"schemas.enable", Translated, "%s.schemas", strings.SplitN(prefix, ".", 2)[0])
	}
	return !ok || isTrue(value)
}

const fromWorker = "not in these options: Connect takes it from the worker's configuration, whose default is JsonConverter with schemas. Taken as %s; say otherwise if the worker does"

func (d *debezium) keyConverter(key *KeyFormat) {
	const property = "key.converter"
	switch class := d.options[property]; class {
	case jsonConverter:
		key.Format = formatJSON
		key.Schemas = d.schemas(property + ".")
		d.find(property, Translated, "key.format: json")
	case stringConverter:
		d.find(property, Translated, "key.format: text")
	case byteArrayConverter, binaryDataConverter, dbzBytesConverter:
		d.find(property, Translated, "key.format: text, which is raw bytes for bytea")
	case "":
		d.find(property, NotSupported, fromWorker, "StringConverter, key.format: text")
	default:
		d.find(property, NotSupported, "%s is not available; keys are written as text, which moves them to other partitions", class)
	}
	d.all(property+".", NotSupported, "this setting of the converter has no counterpart")
}

func (d *debezium) valueConverter(value *ValueFormat) {
	const property = "value.converter"
	class := d.options[property]
	prefix := property + "."
	if class == binaryDataConverter || class == dbzBytesConverter {
		d.delegate(value, class)
	} else {
		switch class {
		case jsonConverter:
			value.Format = formatJSON
			value.Schemas = d.schemas(prefix)
			d.find(property, Translated, "value.format: json")
		case stringConverter:
			d.find(property, Translated, "value.format: raw; bytea goes out as raw bytes, not as the description of a Java object")
		case byteArrayConverter:
			value.Format = formatBytes
			d.find(property, Translated, "value.format: bytes")
		case "":
			d.find(property, NotSupported, fromWorker, "StringConverter, value.format: raw")
		default:
			d.find(property, NotSupported, "%s is not available; the payload goes out as it is", class)
		}
	}
	d.all(prefix, NotSupported, "this setting of the converter has no counterpart")
}

// delegate translates Debezium's converters that leave all but bytea to another one.
func (d *debezium) delegate(value *ValueFormat, class string) {
	const property = "value.converter.delegate.converter.type"
	delegate := d.options[property]
	switch {
	case delegate == jsonConverter && class == dbzBytesConverter: // it does not see bytea, which Postgres has as a buffer
		value.Format = formatJSON
	case delegate == jsonConverter:
		value.Format = formatBytesOrJSON
	case delegate == "":
		value.Format = formatBytes
	case delegate != stringConverter:
		d.find(property, NotSupported, "%s is not available; what is not bytea goes out as it is", delegate)
	}
	if delegate == jsonConverter {
		value.Schemas = d.schemas(property + ".")
	}
	if _, done := d.findings[property]; !done && delegate != "" {
		d.find(property, Translated, "part of value.format")
	}
	format := value.Format
	fill(&format, formatRaw)
	d.find("value.converter", Translated, "value.format: %s", format)
}
