import { describe, expect, it } from "vitest";
import { answerParts, fieldChoices, scriptFieldsOf } from "#backlot/kernel/script-fields.js";

const tag = (attributes: string) => `#!/bin/sh\n# <UDF ${attributes} />\n`;
const problemsOf = (attributes: string) => scriptFieldsOf(tag(attributes)).problems;

describe("the questions in a script's text", () => {
  it("are read in order, with every attribute, single or double quotes, any case", () => {
    const text = [
      "#!/bin/bash",
      '# <UDF name="db_name" label="Name of the database" default="shop" example="shop" />',
      `# <udf NAME='mode' Label='Fast & "loose"?' oneof="yes, no">`,
      '# <UDF name="parts" label="A &quot;part&quot; &lt;or two&gt;" manyof="a,b,c" default="a,c"/>',
      '# <UDF name="_1" label="About you" header="Yes"/>',
    ].join("\n");
    expect(scriptFieldsOf(text)).toEqual({
      problems: [],
      fields: [
        { name: "db_name", label: "Name of the database", default: "shop", example: "shop" },
        { name: "mode", label: 'Fast & "loose"?', oneof: "yes, no" },
        { name: "parts", label: 'A "part" <or two>', manyof: "a,b,c", default: "a,c" },
        { name: "_1", label: "About you", header: "Yes" },
      ],
    });
  });

  it("may go on over the next line of a comment, and hold a > inside quotes", () => {
    const { fields } = scriptFieldsOf('#!/bin/sh\n# <UDF name="a"\n#      label="x > y"\n#      default="">\n');
    expect(fields).toEqual([{ name: "a", label: "x > y", default: "" }]);
  });

  it("are nothing where the word only looks like a tag", () => {
    expect(scriptFieldsOf("#!/bin/sh\necho '<udfx name=1>' '<UDF' udf <udf>\n")).toEqual({ fields: [], problems: [] });
  });

  it.each([
    ['label="x"', /line 2 has no name/],
    ['name="1st" label="x"', /no name of a variable/],
    ['name="a-b" label="x"', /no name of a variable/],
    ['name="a"', /no label for a/],
    ['name="a" label="x" oneof="1" manyof="2"', /both oneof and manyof/],
    ['name="a" label="x" oneof=" , "', /nothing to choose from/],
    ['name="a" label="x" oneof="1,2" default="3"', /none of its choices/],
    ['name="a" label="x" manyof="1,2" default="1,3"', /none of its choices/],
    ['name="a" label="x" label="y"', /label twice/],
    ["name=a label=x", /no quoted value for name/],
    ['name label="x"', /no value for name/],
    ['name="a" label="x', /no quoted value for label/],
    ['name="a" ? label="x"', /no attribute/],
  ])("<UDF %s> is refused", (attributes, reason) => {
    const problems = problemsOf(attributes);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(reason);
    expect(scriptFieldsOf(tag(attributes)).fields).toEqual([]);
  });

  it("ask a name once", () => {
    const text = `${tag('name="a" label="x"')}${tag('name="a" label="y"')}`;
    expect(scriptFieldsOf(text).problems).toEqual(["The UDF tag on line 4 asks for a a second time."]);
  });

  it("are read in linear time, whatever the text", () => {
    for (const piece of ["<udf ", '<udf a="', "<udf a= ", "<UDF name='a' label='b' ", "<udf\n#", "<udf a"]) {
      const text = `#!/bin/sh\n${piece.repeat(Math.ceil(65_000 / piece.length))}`;
      // Not a measurement: what is quadratic or worse does not come back before the test's own limit.
      expect(scriptFieldsOf(text.repeat(20)).fields.length).toBeLessThan(2);
    }
  });

  it("have choices and answers of one or many parts", () => {
    expect(fieldChoices({ name: "a", label: "x", oneof: "1, 2" })).toEqual(["1", "2"]);
    expect(fieldChoices({ name: "a", label: "x" })).toBeUndefined();
    expect(answerParts({ name: "a", label: "x", oneof: "1,2" }, "1,2")).toEqual(["1,2"]);
    expect(answerParts({ name: "a", label: "x", manyof: "1,2" }, "1, 2")).toEqual(["1", "2"]);
  });
});
