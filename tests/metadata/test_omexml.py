import pytest

from napari_ngff.metadata.parse import image_names

OME = "http://www.openmicroscopy.org/Schemas/OME"


@pytest.mark.parametrize(
    "root",
    [
        f'<OME xmlns="{OME}/2016-06">%s</OME>',
        f'<ome:OME xmlns:ome="{OME}/2013-06" xmlns="{OME}/2013-06">%s</ome:OME>',
        "<OME>%s</OME>",
    ],
)
def test_names_in_document_order_of_any_namespace(root):
    images = (
        '<Image ID="Image:1" Name="b"><Pixels/></Image><Plate Name="p"/>'
        '<Image ID="Image:0"/><Image Name="zelle &amp; \u00b5m"/>'
        '<StructuredAnnotations><Image Name="not one"/></StructuredAnnotations>'
    )
    assert image_names((root % images).encode()) == ("b", None, "zelle & \u00b5m")


def test_a_declared_encoding_is_followed():
    text = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><OME><Image Name="\u00b5"/></OME>'
    )
    assert image_names(text.encode("latin-1")) == ("\u00b5",)
    assert image_names('<OME><Image Name="a"/></OME>'.encode("utf-16")) == ("a",)


LAUGHS = b"""<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<OME><Image Name="&b;"/></OME>"""


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"not xml",
        b'<OME><Image Name="a"/>',
        b'<OME><Image Name="a"></OME>',
        b'<?xml version="1.0" encoding="nonsense"?><OME><Image Name="a"/></OME>',
        b'<?xml version="1.0" encoding="shift_jis"?><OME><Image Name="a"/></OME>',
        b'\xff\xfe\x00<OME><Image Name="a"/></OME>',
        b'<OME><Image Name="\xff"/></OME>',
        LAUGHS,
        b'<!DOCTYPE OME SYSTEM "file:///etc/passwd"><OME><Image Name="a"/></OME>',
    ],
)
def test_malformed_or_dangerous_documents_have_no_names(xml):
    assert image_names(xml) == ()


def test_a_document_too_large_is_not_read(monkeypatch):
    xml = b'<OME><Image Name="a"/></OME>'
    monkeypatch.setattr("napari_ngff.metadata.parse.MAX_SIZE", len(xml))
    assert image_names(xml) == ("a",)
    assert image_names(xml + b" ") == ()


def test_depth_costs_no_stack():
    depth = 100_000
    xml = b"<OME>" + b"<a>" * depth + b"</a>" * depth + b'<Image Name="a"/></OME>'
    assert image_names(xml) == ("a",)
