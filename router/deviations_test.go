package router

func (c *comparison) explain() string { return "" }
