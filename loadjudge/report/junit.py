"""JUnit XML, as CI systems read it. Pure.

The format has no third outcome, so an inconclusive case is a failure of the type "inconclusive".
"""

import re
import xml.etree.ElementTree as ET

from loadjudge.report.cases import Suite

# Characters that XML 1.0 has no place for.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(suite: Suite) -> bytes:
    """The suite as an XML document."""
    root = ET.Element("testsuites")
    element = ET.SubElement(
        root,
        "testsuite",
        name=_spoken(f"loadjudge: {suite.name}"),
        tests=str(len(suite.cases)),
        failures=str(suite.count("failed", "inconclusive")),
        errors=str(suite.count("error")),
        skipped=str(suite.count("skipped")),
    )
    properties = ET.SubElement(element, "properties")
    for name, value in suite.figures.items():
        ET.SubElement(properties, "property", name=_spoken(name), value=_spoken(value))
    for case in suite.cases:
        made = ET.SubElement(
            element, "testcase", classname=f"loadjudge.{_dotless(suite.name)}", name=case.name
        )
        message = _spoken(case.message)
        match case.outcome:
            case "failed" | "inconclusive":
                what = "gate" if case.outcome == "failed" else "inconclusive"
                ET.SubElement(made, "failure", message=message, type=what).text = message
            case "error":
                ET.SubElement(made, "error", message=message, type="invalid").text = message
            case "skipped":
                ET.SubElement(made, "skipped", message=message)
            case "passed" if message:
                ET.SubElement(made, "system-out").text = message
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _spoken(text: str) -> str:
    return _UNSPEAKABLE.sub("\ufffd", text)


def _dotless(text: str) -> str:
    """Class names are split at dots into packages: a name of an engine is none."""
    return _spoken(text).replace(".", "\u2024")
