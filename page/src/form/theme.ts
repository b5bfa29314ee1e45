import "@sjsf/basic-theme/extra-widgets/checkboxes-include";
import "@sjsf/form/fields/extra/enum-include";
import "@sjsf/form/fields/extra/multi-enum-include";
import { theme as basic } from "@sjsf/basic-theme";
import type { Config, ResolveFieldType, Theme, Translation } from "@sjsf/form";
import BooleanSelect from "@sjsf/form/fields/extra/boolean-select.svelte";
import { fromRecord, overrideByRecord } from "@sjsf/form/lib/resolver";
import { t } from "../text/i18n.svelte";
import Choice from "./Choice.svelte";
import Label from "./Label.svelte";
import Words from "./Words.svelte";

/** How the library's forms look here: its basic theme, with choices and words of our own. */
export const theme: Theme = overrideByRecord(basic, {
  booleanField: BooleanSelect,
  label: Label,
  selectWidget: Choice,
  textWidget: Words,
});

/** Which of the library's fields shows what: there are only the kinds that `formable` lets through. */
export const resolver =
  (): ResolveFieldType =>
  ({ schema }: Config) => {
    if (schema.enum) return "enumField";
    switch (schema.type) {
      case "boolean":
      case "number":
      case "integer":
        return `${schema.type}Field`;
      case "object":
        return "objectField";
      case "array":
        return isChoiceOfMany(schema.items) && schema.uniqueItems ? "multiEnumField" : "arrayField";
      default:
        return "stringField";
    }
  };

const isChoiceOfMany = (items: unknown): boolean =>
  typeof items === "object" && items !== null && "enum" in items;

export const translation: Translation = fromRecord({
  yes: () => t().form.yes,
  no: () => t().form.no,
  "add-array-item": () => t().form.add,
  "remove-array-item": () => t().form.remove,
  "move-array-item-up": "↑",
  "move-array-item-down": "↓",
});

/** So many choices are shown at once, as buttons; more of them are a list to choose from. */
export const MOST_BUTTONS = 7;

/** Whether what `schema` asks for is chosen by buttons, which have a group for a label instead of a field. */
export function isButtons(schema: Config["schema"]): boolean {
  return schema.type === "boolean" || (schema.enum !== undefined && schema.enum.length <= MOST_BUTTONS);
}
